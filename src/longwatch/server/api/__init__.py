"""The routes of the API, one module for each thing they are about."""
