"""The page: its static files, the bundle and the HTML report."""
