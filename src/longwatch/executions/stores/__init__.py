"""Where executions are kept: memory, a SQLite file or a DynamoDB table."""
