"""Services on the web: polite, bounded and checked requests, and a cache of answers."""
