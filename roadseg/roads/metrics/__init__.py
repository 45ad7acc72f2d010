"""Metrics of masks and graphs."""
