"""Shared by all stores: SQLite files, DynamoDB tables, change signals, URLs."""
