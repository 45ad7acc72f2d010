"""The synthetic city of `roadseg demo`: its streets, surroundings and aerial images."""
