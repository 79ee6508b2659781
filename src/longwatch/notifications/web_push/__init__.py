"""Web Push: notifications that a browser shows while the page is closed."""
