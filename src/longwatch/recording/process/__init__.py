"""A workflow process watched from outside: what it prints, what it writes to the journal, and how it ends."""
