"""Training: samples, augmentation, the learner and its epochs."""
