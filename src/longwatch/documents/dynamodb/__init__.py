"""Documents in a DynamoDB table, for servers that run on more than one machine."""

from longwatch.documents.dynamodb.store import DynamoDocumentStore

__all__ = ["DynamoDocumentStore"]
