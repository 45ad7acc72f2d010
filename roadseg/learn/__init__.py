"""Learning: everything that needs torch."""
