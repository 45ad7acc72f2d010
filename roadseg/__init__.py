"""From satellite images and road labels to a routable road network with speeds."""
