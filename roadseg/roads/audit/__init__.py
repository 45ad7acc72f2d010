"""Audit of an existing road map against the probabilities of an image."""
