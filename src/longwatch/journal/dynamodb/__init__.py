"""A journal in a DynamoDB table, laid out as document 001 (`workflow`) or document 002 (`session`) has it."""
