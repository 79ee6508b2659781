"""DynamoDB: the client, values, errors, the fast query and the check of a table."""
