"""Training: samples, augmentation, the trainer and its epochs."""
