"""System: files, records, locks, processes and the machine."""
