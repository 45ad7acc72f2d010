"""One file per command: read files, compute, write files, return a summary."""
