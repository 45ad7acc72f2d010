"""Review: people look at roads, accept, reject, draw and correct them; their edits are kept."""
