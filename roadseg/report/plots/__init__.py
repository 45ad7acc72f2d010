"""Plots: maps, charts and sheets, drawn with matplotlib."""
