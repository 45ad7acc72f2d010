"""Survey of images and road labels, from which init writes a config."""
