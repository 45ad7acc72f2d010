"""The synthetic city of the demo."""
