"""The commands of roadseg, by what they are about."""
