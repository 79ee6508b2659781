"""The shapes of projects, sessions and turns, for the schema. Times are ISO 8601 in UTC."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from longwatch.server.api.parameters import RequestBody as Strict

TurnWord = Literal["pending", "running", "completed", "failed"]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Gap = Annotated[
    list[int],
    Field(min_length=2, max_length=2, description="The first and the last number of lines that are missing."),
]
NewId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$",
        description="Left out, the server makes one.",
    ),
]


class NewProject(Strict):
    """A project to be made."""

    id: NewId = ""
    name: Annotated[str, Field(max_length=1000)] = ""


class ProjectShape(Strict):
    """A project: its sessions and its files."""

    id: str
    name: str | None
    created_at: Time


class ProjectListShape(Strict):
    """All projects, the first one first."""

    projects: list[ProjectShape]


class NewSession(Strict):
    """A session to be made."""

    id: NewId = ""
    title: Annotated[str, Field(max_length=1000)] = ""


class LastTurnShape(Strict):
    """How the newest turn stands."""

    id: str
    status: TurnWord


class SessionShape(Strict):
    """A session: turns that follow each other."""

    id: str
    title: str | None
    created_at: Time
    turn_count: int
    last_turn: LastTurnShape | None


class SessionListShape(Strict):
    """The sessions of a project, the first one first."""

    sessions: list[SessionShape]


class NewTurn(Strict):
    """A turn to be made; the one that runs is cancelled. With an id, the same again is the same turn."""

    id: Annotated[
        str,
        Field(
            min_length=6,
            max_length=100,
            pattern=r"^turn-[A-Za-z0-9._-]+$",
            description="Left out, the server makes one.",
        ),
    ] = ""
    prompt: Annotated[str, Field(max_length=1_000_000)] = ""


class BlockShape(Strict):
    """One block of a turn."""

    id: str
    sequence: int
    type: Literal["thinking", "content", "tool_use", "tool_result"]
    created_at: Time
    content: dict[str, Any]


class TurnShape(Strict):
    """A turn without its blocks."""

    id: str
    project_id: str
    session_id: str
    number: int
    prompt: str | None
    status: TurnWord
    block_count: int
    error: str | None
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    last_updated: Time
    missing_lines: list[Gap] = Field(default=[], description="Left out if no line is missing.")


class WholeTurnShape(TurnShape):
    """A turn with its blocks."""

    blocks: list[BlockShape]


class TurnListShape(Strict):
    """The turns of a session, the first one first."""

    turns: list[TurnShape]


class TurnStatusShape(Strict):
    """What a client needs to decide whether to look closer."""

    status: TurnWord
    block_count: int
    last_updated: Time


class Interruption(Strict):
    """Why a turn is interrupted."""

    reason: Annotated[str, Field(max_length=1000)] = ""


class ProcessShape(Strict):
    """The process that executes a turn. On the server's own machine its death ends the turn."""

    host: Annotated[str, Field(min_length=1, max_length=255)]
    pid: Annotated[int, Field(ge=1, le=2**31, strict=True)]
    started: Annotated[int, Field(ge=0, le=2**53, strict=True)] = 0
    namespace: Annotated[str, Field(max_length=100)] = ""
    id: Annotated[str, Field(max_length=100)] = ""
    machine: Annotated[str, Field(max_length=100, description="A digest of the machine id.")] = ""
    boot: Annotated[str, Field(max_length=100, description="The boot id of the machine.")] = ""
    role: Annotated[str, Field(max_length=100)] = ""


class Claim(Strict):
    """Who executes a turn."""

    executor: Annotated[str, Field(max_length=200)] = ""
    process: ProcessShape | None = None
    claim: Annotated[
        str,
        Field(
            max_length=100,
            description="A text of the executor's own: with the same one, a second request is a retry.",
        ),
    ] = ""


class StartedShape(TurnShape):
    """A turn that somebody executes now."""

    next_line: int = Field(description="The number of the first line that is not there yet.")


class TurnEnding(Strict):
    """How the command of a turn ended, judged beside what the agent itself reported."""

    status: Literal["completed", "failed", "cancelled", "died"]
    error: Annotated[str, Field(max_length=10_000)] = ""
    exit_code: Annotated[int | None, Field(ge=0, le=2**31, strict=True)] = None
    signal: Annotated[str, Field(max_length=50, description="Such as `SIGKILL`.")] = ""
    leftover_pid: Annotated[
        int | None, Field(ge=1, le=2**31, strict=True, description="The process that is still running.")
    ] = None
    execution_time_ms: Annotated[float | None, Field(ge=0, le=2**53, strict=True)] = None
    stderr: Annotated[list[Annotated[str, Field(max_length=10_000)]], Field(max_length=100)] = Field(
        default_factory=list
    )


class FedShape(Strict):
    """What became of lines."""

    missing: list[Gap] = Field(default=[], description="Left out if no line is missing before these.")

    accepted: int = Field(description="Lines, those that were there before included.")
    blocks: int = Field(description="Blocks that are new.")
    status: TurnWord
