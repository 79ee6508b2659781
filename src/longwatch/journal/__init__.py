"""Where events live."""
