"""Conflation: the roads that a map lacks, joined to the ways that it has; pure."""
