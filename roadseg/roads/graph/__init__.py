"""Road graphs and what is done to them: cleaning, joining, clipping, travel times, routing."""
