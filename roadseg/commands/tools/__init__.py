"""Commands that stand beside the stages."""
