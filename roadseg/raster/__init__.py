"""Rasters: grids, windows, scaling, and images read and written by strips."""
