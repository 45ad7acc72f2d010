"""The report page of a run, and model cards."""
