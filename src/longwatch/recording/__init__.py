"""How work writes events."""
