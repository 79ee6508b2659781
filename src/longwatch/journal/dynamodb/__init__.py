"""A journal in a DynamoDB table: layout `workflow` (the events table) or `session` (the session journal)."""
