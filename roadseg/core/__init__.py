"""Pure functions on arrays and geometries: no files, no logging, no torch."""
