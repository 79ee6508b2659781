"""longwatch records long-running work as immutable events, follows it, and tells how it ended."""
