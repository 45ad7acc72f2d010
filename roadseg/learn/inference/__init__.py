"""Inference: sliding windows, the engines that run networks, and jobs."""
