"""Roads: labels, masks, graphs, their metrics and their file formats."""
