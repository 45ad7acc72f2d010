"""The stages of a run, and the pipeline of all of them."""
