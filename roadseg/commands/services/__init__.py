"""Images and roads from services on the web, cut to an area."""
