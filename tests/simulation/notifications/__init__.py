"""Simulation of notifiers: runs, crashes at every point, and receivers that fail."""
