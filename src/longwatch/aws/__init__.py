"""Lambda handlers, and their packaging. Thin: event in, one call, plain data out."""
