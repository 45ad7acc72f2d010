"""Networks, training and inference: the only part that imports torch."""
