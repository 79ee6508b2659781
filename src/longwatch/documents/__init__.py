"""Files that people and programs edit at once: Yjs documents, their versions, and where they are stored."""
