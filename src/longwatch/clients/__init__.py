"""Clients of a longwatch server that poll: a turn until it is over, and the documents of a project."""

from longwatch.clients.api import ServerClient
from longwatch.clients.document_polling import DocumentPolling
from longwatch.clients.files import DocumentChange, File
from longwatch.clients.session_polling import SessionPolling
from longwatch.clients.turns import Turn, TurnBlock

__all__ = [
    "DocumentChange",
    "DocumentPolling",
    "File",
    "ServerClient",
    "SessionPolling",
    "Turn",
    "TurnBlock",
]
