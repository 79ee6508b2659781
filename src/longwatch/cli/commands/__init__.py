"""The commands of longwatch, one module each."""
