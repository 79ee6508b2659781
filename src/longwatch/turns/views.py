"""Projects, conversations (in the routes: sessions) and turns, as the API and the feed return them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

from longwatch.clock import iso_from_ms
from longwatch.journal.usage_views import UsageView, WaitView
from longwatch.model.json_schema import STRICT, JsonSchema, Time, leave_out_empty
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.model.usage import total_usage
from longwatch.turns.projects import Conversation, Project
from longwatch.turns.streaming import StreamingBlock
from longwatch.turns.turn import Block, TurnState, blocks_cursor

if TYPE_CHECKING:
    from longwatch.turns.line_reader import LineResult

LEFT_OUT = ("missing_lines", "usage", "waiting")  # fields of a turn that are left out while they are empty
TurnWord = Literal["pending", "running", "completed", "failed"]
BlockType = Literal["thinking", "content", "tool_use", "tool_result"]
Gap = Annotated[
    Sequence[int], JsonSchema("The first and the last number of missing lines.", minItems=2, maxItems=2)
]


@dataclass(frozen=True, kw_only=True)
class ProjectView:
    """A project: its sessions and its files."""

    __pydantic_config__ = STRICT

    id: str
    name: str | None
    created_at: Time

    @classmethod
    def of(cls, project: Project) -> ProjectView:
        return cls(id=project.id, name=project.name, created_at=iso_from_ms(project.created_at))


@dataclass(frozen=True, kw_only=True)
class ProjectListView:
    """All projects, oldest first."""

    __pydantic_config__ = STRICT

    projects: list[ProjectView]


@dataclass(frozen=True, kw_only=True)
class LastTurn:
    """The newest turn of a session and its status."""

    __pydantic_config__ = STRICT

    id: str
    status: TurnWord


@dataclass(frozen=True, kw_only=True)
class SessionView:
    """A session: turns that follow each other."""

    __pydantic_config__ = STRICT

    id: str
    title: str | None
    created_at: Time
    turn_count: int
    last_turn: LastTurn | None

    @classmethod
    def of(cls, conversation: Conversation, last_turn: TurnState | None) -> SessionView:
        return cls(
            id=conversation.id,
            title=conversation.title,
            created_at=iso_from_ms(conversation.created_at),
            turn_count=conversation.turn_count,
            last_turn=LastTurn(id=last_turn.turn_id, status=_status(last_turn)) if last_turn else None,
        )


@dataclass(frozen=True, kw_only=True)
class SessionDetails(SessionView):
    """One session, with the usage of its turns together."""

    usage: Annotated[UsageView | None, JsonSchema("Null if no model was called.")]

    @classmethod
    def of_turns(
        cls, conversation: Conversation, turns: Sequence[TurnState], prices: Prices = NO_PRICES
    ) -> SessionDetails:
        view = SessionView.of(conversation, turns[-1] if turns else None)
        return cls(**vars(view), usage=usage_of_turns(turns, prices))


def usage_of_turns(turns: Iterable[TurnState], prices: Prices = NO_PRICES) -> UsageView | None:
    """The usage of several turns together. A thread that several turns continue counts once."""
    return UsageView.of(total_usage(turn.usage for turn in turns), prices)


@dataclass(frozen=True, kw_only=True)
class SessionList:
    """The sessions of a project, oldest first."""

    __pydantic_config__ = STRICT

    sessions: list[SessionView]


@dataclass(frozen=True, kw_only=True)
class BlockView:
    """One block of a turn."""

    __pydantic_config__ = STRICT

    id: str
    sequence: int
    type: BlockType
    created_at: Time
    content: dict[str, Any]

    @classmethod
    def of(cls, block: Block, sequence: int) -> BlockView:
        """The view of the block with this number, from 0."""
        return cls(
            id=block.id,
            sequence=sequence,
            type=cast("BlockType", block.kind),
            created_at=iso_from_ms(block.created_at),
            content={name: _plain(value) for name, value in block.content.items()},
        )


@dataclass(frozen=True, kw_only=True)
class StreamingBlockView:
    """A block whose message has not ended. The finished block, with an id of its own, replaces it."""

    __pydantic_config__ = STRICT

    id: str
    type: Literal["thinking", "content"]
    created_at: Time
    text: str

    @classmethod
    def of(cls, block: StreamingBlock) -> StreamingBlockView:
        return cls(
            id=block.id,
            type=cast("Literal['thinking', 'content']", block.kind),
            created_at=iso_from_ms(block.created_at),
            text=block.text,
        )


@dataclass(frozen=True, kw_only=True)
class BlockDelta:
    """Text of a block whose message has not ended, from its delta number `part`, from 0, up to `parts`."""

    id: str
    type: str
    created_at: Time
    part: int
    parts: int
    text: str

    @classmethod
    def of(cls, block: StreamingBlock, part: int) -> BlockDelta:
        """The text of this delta and all that follow it."""
        return cls(
            id=block.id,
            type=block.kind,
            created_at=iso_from_ms(block.created_at),
            part=part,
            parts=len(block.deltas),
            text="".join(delta.text for delta in block.deltas[part:]),
        )


Streaming = Annotated[StreamingBlockView | None, JsonSchema("Left out if no block is unfinished.")]
BlocksCursor = Annotated[str, JsonSchema("For `blocks_after`: the blocks that a client has now.")]


@dataclass(frozen=True, kw_only=True)
class _TurnIds:
    __pydantic_config__ = STRICT

    id: str
    project_id: str
    session_id: str
    number: int


@dataclass(frozen=True, kw_only=True)
class _TurnIdentity(_TurnIds):
    prompt: str | None
    status: TurnWord


@dataclass(frozen=True, kw_only=True)
class _TurnBlocks(_TurnIdentity):
    blocks: list[BlockView]


@dataclass(frozen=True, kw_only=True)
class _TurnProgress:
    missing_lines: Annotated[Sequence[Gap], JsonSchema("Left out if no line is missing.")] = ()
    usage: Annotated[UsageView | None, JsonSchema("Left out until the agent has reported tokens.")] = None
    waiting: Annotated[Sequence[WaitView], JsonSchema("Open waits. Left out without any.")] = ()
    block_count: int
    error: str | None
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    last_updated: Time


@dataclass(frozen=True, kw_only=True)
class TurnLine(_TurnProgress, _TurnIdentity):
    """A turn without its blocks."""

    @classmethod
    def of(cls, state: TurnState, prices: Prices = NO_PRICES, **more: Any) -> Self:
        """The view of the turn. `more` are the fields of a subclass."""
        creation: Any = state.creation
        view = cls(
            id=state.turn_id,
            project_id=creation and creation.project_id,
            session_id=creation and creation.conversation_id,
            number=creation and creation.number,
            prompt=creation and creation.prompt,
            status=_status(state),
            missing_lines=state.missing_lines,
            usage=_reported_usage(state, prices),
            waiting=[WaitView.of(wait) for wait in state.waiting],
            block_count=state.block_count,
            error=state.error,
            created_at=_time(state.created_at),
            started_at=_time(state.started_at),
            completed_at=_time(state.completed_at),
            last_updated=_time(state.last_updated),
            **more,
        )
        for name in LEFT_OUT:
            leave_out_empty(view, name)
        return view


@dataclass(frozen=True, kw_only=True)
class TurnDetails(TurnLine, _TurnBlocks):  # these bases put the blocks in front of their number
    """A turn with its blocks."""

    streaming: Streaming = None
    blocks_cursor: BlocksCursor

    @classmethod
    def of(cls, state: TurnState, prices: Prices = NO_PRICES, **more: Any) -> Self:
        return leave_out_empty(super().of(state, prices, **_block_fields(state), **more), "streaming")


@dataclass(frozen=True, kw_only=True)
class TurnUpdate(_TurnProgress, _TurnIds):
    """A turn for a client that has some of its blocks: without the prompt, and with the other blocks."""

    status: TurnWord
    blocks_from: Annotated[
        int, JsonSchema("The sequence of the first block here. The client keeps its own blocks before it.")
    ]
    blocks: list[BlockView]
    streaming: Streaming = None
    blocks_cursor: BlocksCursor

    @classmethod
    def of(cls, state: TurnState, first: int, prices: Prices = NO_PRICES) -> Self:
        """The view without the blocks before the one with this sequence."""
        fields = dict(vars(TurnLine.of(state, prices)))
        del fields["prompt"]
        view = cls(**fields, **_block_fields(state, first), blocks_from=first)
        for name in (*LEFT_OUT, "streaming"):
            leave_out_empty(view, name)
        return view


def _block_fields(state: TurnState, first: int = 0) -> dict[str, Any]:
    return {
        "blocks": [BlockView.of(state.blocks[at], at) for at in range(first, state.block_count)],
        "streaming": StreamingBlockView.of(state.streaming) if state.streaming is not None else None,
        "blocks_cursor": blocks_cursor(state),
    }


@dataclass(frozen=True, kw_only=True)
class StartedTurn(TurnLine):
    """A turn that an executor has claimed."""

    next_line: Annotated[int, JsonSchema("The number of the first line that is not stored yet.")]

    @classmethod
    def of(cls, state: TurnState, prices: Prices = NO_PRICES, **more: Any) -> Self:
        return super().of(state, prices, next_line=state.highest_line + 1, **more)


@dataclass(frozen=True, kw_only=True)
class TurnList:
    """The turns of a session, oldest first."""

    __pydantic_config__ = STRICT

    turns: list[TurnLine]
    usage: Annotated[UsageView | None, JsonSchema("Of these turns together; null if no model was called.")]

    @classmethod
    def of(cls, turns: Sequence[TurnState], prices: Prices = NO_PRICES) -> TurnList:
        lines = [TurnLine.of(turn, prices) for turn in turns]
        return cls(turns=lines, usage=usage_of_turns(turns, prices))


@dataclass(frozen=True, kw_only=True)
class TurnStatusView:
    """What a client needs to decide whether to fetch the whole turn."""

    __pydantic_config__ = STRICT

    status: TurnWord
    block_count: int
    last_updated: Time

    @classmethod
    def of(cls, state: TurnState) -> TurnStatusView:
        return cls(
            status=_status(state), block_count=state.block_count, last_updated=_time(state.last_updated)
        )


@dataclass(frozen=True, kw_only=True)
class AcceptedLines:
    """The effect of lines on a turn."""

    __pydantic_config__ = STRICT

    accepted: Annotated[int, JsonSchema("Lines, including those that were stored before.")]
    blocks: Annotated[int, JsonSchema("New blocks.")]
    status: TurnWord
    missing: Annotated[Sequence[Gap], JsonSchema("Left out if no line is missing before these.")] = ()

    @classmethod
    def of(cls, fed: LineResult) -> AcceptedLines:
        status = cast("TurnWord", fed.status)
        view = cls(accepted=fed.accepted, blocks=fed.blocks, status=status, missing=fed.missing)
        return leave_out_empty(view, "missing")


def _reported_usage(state: TurnState, prices: Prices) -> UsageView | None:
    view = UsageView.of(state.usage, prices)
    return view if view is not None and (view.calls_with_tokens or view.priced_calls) else None


def _status(state: TurnState) -> TurnWord:
    return cast("TurnWord", state.wire_status)


def _time(at_ms: int | None) -> Any:
    return None if at_ms is None else iso_from_ms(at_ms)


def _plain(value: object) -> object:
    """A stored value as JSON can express it. Blocks that were not fed as lines may have any."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return [_plain(item) for item in sorted(value, key=repr)]
        case bytes():
            return f"<{len(value)} bytes>"
        case Decimal():
            return str(value)
    return value
