"""The command line: one file per command, pure rendering beside them."""
