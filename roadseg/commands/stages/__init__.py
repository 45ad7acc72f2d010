"""The stages of a run, their pipeline, and the modules that serve them.

`quantize` is a command, no stage of a run.
"""
