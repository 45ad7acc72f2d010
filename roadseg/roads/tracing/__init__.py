"""Tracing: from the pixels of roads to a road graph."""
