"""Subscriptions: the topics of the feed with selected fields. The same broadcasts serve all other streams.

Each update has the cursor to resume from. A frame of the feed without one keeps that of the frame before it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import wraps
from typing import Any, cast

import strawberry
from strawberry.types import Info
from strawberry.types.field import StrawberryField

from longwatch.errors import InvalidInput
from longwatch.executions.model import ExecutionKey
from longwatch.model.event import MAX_RUN_ID_BYTES
from longwatch.server.api.executions import execution_details
from longwatch.server.api.parameters import MAX_CURSOR
from longwatch.server.errors import ApiError
from longwatch.server.graphql.executions import ExecutionType
from longwatch.server.graphql.fields import (
    COST,
    INTERNAL,
    READ_COST,
    GraphqlContext,
    checked,
    error_of,
    server_of,
)
from longwatch.server.graphql.projects import MAX_ID, BlockType, TurnType, load_turn
from longwatch.server.graphql.runs import EventType, RunType, run_source
from longwatch.server.graphql.types import Long, description_of, enum_type, new_type, plain_field
from longwatch.server.live.messages import Frame
from longwatch.server.live.topics import Topic
from longwatch.server.live.viewers import Viewer

RequestInfo = Info[GraphqlContext, None]
Update = dict[str, Any]

UpdateKind = enum_type(
    "UpdateKind",
    (
        *("event", "run", "run_deleted", "execution", "turn", "block", "block_delta"),
        *("caught_up", "missed", "ended"),
    ),
)
EndedType = new_type(
    "Ended",
    {
        "reason": plain_field(str, "Such as `ended`, `died` or `deleted`."),
        "status": plain_field(str),
        "message": plain_field(str | None),
    },
    "Why a subscription ends. Subscribe again with the cursor for a later correction.",
)
BlockDeltaType = new_type(
    "BlockDelta",
    {
        "id": plain_field(str),
        "type": plain_field(str),
        "created_at": plain_field(str),
        "part": plain_field(Long, "The number of its first delta; 0 replaces the text so far."),
        "parts": plain_field(Long, "The number of deltas so far."),
        "text": plain_field(str),
    },
    "Text of a block whose message has not ended.",
)


def _update_type(name: str, description: str, further: Mapping[str, StrawberryField]) -> Any:
    declared = {
        "kind": plain_field(UpdateKind),
        "cursor": plain_field(str, "For `after`, to resume behind this update."),
        **further,
        "missed": plain_field(
            Long | None,
            "The client was too slow for this number of updates, which are read again and come next.",
        ),
    }
    return new_type(name, declared, description)


RunUpdate = _update_type(
    "RunUpdate",
    "One event of a run, or that the history is complete (`caught_up`), or the ending.",
    {
        "event": plain_field(EventType | None),
        "late": plain_field(bool | None, "The event sorts before one that was sent already."),
        "ended": plain_field(EndedType | None),
    },
)
RunsUpdate = _update_type(
    "RunsUpdate",
    "A run that is new or has changed, or one that was deleted.",
    {"run": plain_field(RunType | None), "run_id": plain_field(str | None, "Of the deleted run.")},
)
TurnUpdateType = _update_type(
    "TurnUpdate",
    "The status of a turn, a new block, or text that streams. A block with a known id replaces it.",
    {
        "turn": plain_field(TurnType | None),
        "block": plain_field(BlockType | None),
        "replaces": plain_field(str | None, "The id of the streaming block that the block finishes."),
        "delta": plain_field(BlockDeltaType | None),
        "ended": plain_field(EndedType | None),
    },
)
ExecutionUpdate = _update_type(
    "ExecutionUpdate",
    "An execution whenever it changes.",
    {"execution": plain_field(ExecutionType | None), "ended": plain_field(EndedType | None)},
)


def subscription(graphql_type: Any) -> Callable[[Callable[..., AsyncGenerator[Update, None]]], Any]:
    """Declare a subscription. Its description is the docstring."""

    def declare(updates: Callable[..., AsyncGenerator[Update, None]]) -> StrawberryField:
        @wraps(updates)
        async def subscribe(*args: Any, **kwargs: Any) -> AsyncGenerator[Update, None]:
            try:
                async with aclosing(updates(*args, **kwargs)) as found:
                    async for update in found:
                        yield update
            except Exception as error:
                raise error_of(error) from error

        made: Any = strawberry.subscription(
            resolver=subscribe,
            graphql_type=graphql_type,
            description=description_of(updates),
            metadata={COST: READ_COST},
        )
        return cast("StrawberryField", made)

    return declare


class Subscriptions:
    """The topics of the feed that GraphQL has."""

    @subscription(RunUpdate)
    async def run_events(
        root: Any, info: RequestInfo, run_id: str, after: str | None = None
    ) -> AsyncGenerator[Update, None]:
        """Every event of a run, exactly once, until the run has ended."""
        name = checked(run_id, "runId", most=MAX_RUN_ID_BYTES)
        if not name:
            raise InvalidInput("Invalid runId: it is empty.")
        async for update in follow(info, f"run:{name}", after):
            yield update

    @subscription(RunsUpdate)
    async def runs(root: Any, info: RequestInfo, after: str | None = None) -> AsyncGenerator[Update, None]:
        """The newest runs, then every run that is new or has changed."""
        async for update in follow(info, "runs", after):
            if "run" in update:
                update["run"] = run_source(update["run"])
            yield update

    @subscription(TurnUpdateType)
    async def turn(
        root: Any, info: RequestInfo, project_id: str, session_id: str, id: str, after: str | None = None
    ) -> AsyncGenerator[Update, None]:
        """The blocks and the status of a turn, until it has ended."""
        given = {"projectId": project_id, "sessionId": session_id, "id": id}
        ids = [checked(each, name, most=MAX_ID) for name, each in given.items()]
        cursor = after or ""
        async for update in follow(info, f"turn:{'/'.join(ids)}", after):
            cursor = update["cursor"]
            if "turn" in update:
                update["turn"] = dict(
                    update["turn"]
                )  # its resolvers add to it, and other viewers have it too
            yield update
        state = await load_turn(server_of(info), *ids)
        if state.has_ended:
            ended = {"reason": "ended", "status": state.wire_status, "message": state.error}
            yield {"kind": "ended", "cursor": cursor, "ended": ended}

    @subscription(ExecutionUpdate)
    async def execution(
        root: Any, info: RequestInfo, execution_id: str, plan_id: str | None = None, after: str | None = None
    ) -> AsyncGenerator[Update, None]:
        """One execution whenever it changes, until it has ended."""
        name, plan = checked(execution_id, "executionId"), checked(plan_id, "planId") or None
        found = await execution_details(server_of(info), name, plan)
        key = ExecutionKey(found.plan_id, found.execution_id)
        async for update in follow(info, f"execution:{key}", after):
            yield update
            shown = update.get("execution")
            if update["kind"] == "caught_up":  # after a resumption there may be no other update
                shown = vars(await execution_details(server_of(info), key.execution_id, key.plan_id))
            if shown is not None and shown["ended_at"] is not None:
                ended = {"reason": "ended", "status": shown["status"], "message": shown["message"]}
                yield {"kind": "ended", "cursor": update["cursor"], "ended": ended}
                return


async def follow(info: RequestInfo, topic: str, after: str | None) -> AsyncGenerator[Update, None]:
    """The updates of a topic. It ends with the topic, or with an error."""
    feed, cursor = info.context.feed, checked(after, "after", most=MAX_CURSOR)
    if not (cursor.isascii() and cursor.isprintable()):
        raise InvalidInput("Invalid after. Use the cursor of an earlier update, or leave it out.")
    viewer = Viewer()
    feed.viewers.enter(viewer)
    reader = feed.open(Topic.of(topic), cursor, viewer.wake, viewer.read_ahead)
    try:
        while not reader.is_over:
            frames = reader.take()
            for frame in frames:
                cursor = frame.cursor if frame.cursor is not None else cursor
                yield update_of(frame, cursor)
            if not (frames or reader.is_over):
                # At the shutdown as well: its socket closes, and the client resumes on another server.
                await viewer.wait()
    finally:
        feed.viewers.exit(viewer)
        reader.close()


def update_of(frame: Frame, cursor: str) -> Update:
    """The update of a message of the feed; an `error` message is raised."""
    data: Update = frame.values()
    if frame.name == "error":
        internal = data["code"] == "internal_error"
        raise ApiError(500 if internal else 400, data["code"], INTERNAL if internal else data["message"])
    update: Update = {**data, "kind": frame.name, "cursor": cursor}
    if frame.name == "ended":
        update["ended"] = data
    elif frame.name == "missed":
        update["missed"] = data["count"]
    return update
