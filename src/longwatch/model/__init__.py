"""What events mean: processes, endings, attempts, and the rule that decides whether a run died."""
