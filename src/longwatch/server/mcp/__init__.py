"""The Model Context Protocol: tools and resources with which agents read the journal, over stdio and HTTP."""
