"""Devices, processors, launchers and processes."""
