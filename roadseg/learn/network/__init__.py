"""Networks, their pretrained weights, losses and checkpoints."""
