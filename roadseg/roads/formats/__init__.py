"""Files of road graphs: each format is written and read side by side."""
