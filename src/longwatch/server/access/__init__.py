"""Who may do what: hosts, origins, tokens, scopes and limits."""
