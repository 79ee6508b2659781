"""Where the queue of notifications is stored: beside the journal."""
