"""Ways to send a message, one module each."""
