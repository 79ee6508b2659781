"""Clients that poll a longwatch server: a turn until it ends, and the documents of a project."""

from longwatch.remote.client import ServerClient
from longwatch.remote.documents import DocumentChange, DocumentPolling, File
from longwatch.remote.turns import SessionPolling, Turn, TurnBlock

__all__ = [
    "DocumentChange",
    "DocumentPolling",
    "File",
    "ServerClient",
    "SessionPolling",
    "Turn",
    "TurnBlock",
]
