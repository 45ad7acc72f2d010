"""Every file format, written and read side by side."""
