"""The stores of documents: memory, SQLite and DynamoDB."""
