"""Services on the web: polite, bounded and checked requests, and what is kept of the answers."""
