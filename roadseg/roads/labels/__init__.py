"""Road labels: vector files, the speed and width that their attributes state."""
