"""Images of the same ground, whose probabilities are joined."""
