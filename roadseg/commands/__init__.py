"""Commands: files in, files out."""
