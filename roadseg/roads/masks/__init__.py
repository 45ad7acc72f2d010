"""Masks of roads: burned from labels, read from rasters, and probabilities."""
