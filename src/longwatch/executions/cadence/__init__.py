"""A cadence that learns from past executions, an ETA from the same past, and what polling costs."""
