"""Hosts: work on many items in this process, in others, or on workers of a Dask scheduler."""
