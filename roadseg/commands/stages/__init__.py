"""The stages of a run, their pipeline, and the modules that serve them.

`quantize` is a command of its own, not a stage of a run.
"""
