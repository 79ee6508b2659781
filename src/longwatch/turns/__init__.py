"""Projects, conversations (sessions on the wire), turns and their blocks, in any journal."""

from longwatch.turns.conversations import Conversations
from longwatch.turns.dialects import BlockContent, BlockKind, blocks_of
from longwatch.turns.ids import conversation_run, project_run
from longwatch.turns.line_reader import LineResult
from longwatch.turns.projects import AddedTurn, Conversation, Project
from longwatch.turns.turn import Block, TurnState, tag_of, turn_state
from longwatch.turns.views import TurnDetails, TurnLine

__all__ = [
    "AddedTurn",
    "Block",
    "BlockContent",
    "BlockKind",
    "Conversation",
    "Conversations",
    "LineResult",
    "Project",
    "TurnDetails",
    "TurnLine",
    "TurnState",
    "blocks_of",
    "conversation_run",
    "project_run",
    "tag_of",
    "turn_state",
]
