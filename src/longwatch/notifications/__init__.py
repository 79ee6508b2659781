"""Notifications: rules, the messages they produce, and the channels that send them."""
