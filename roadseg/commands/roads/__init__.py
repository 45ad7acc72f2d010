"""Commands on road networks in any file, without a run."""
