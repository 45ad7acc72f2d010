"""Road graphs and what is done to them: cleaning, nodes, noding, joining, travel, routing."""
