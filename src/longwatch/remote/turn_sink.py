"""The sink of a turn on a server: an executor elsewhere sends its output over HTTP.

Lines are numbered, ids are created here, and an ending counts once, so every call may be repeated when its
response was lost. A thread with a long poll learns at once when another writer ends the turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from longwatch.clock import Clock, ms_from_iso
from longwatch.errors import (
    NotWorthAnotherTry,
    RequestRefused,
    TurnEnded,
    TurnNotFound,
    TurnTaken,
    WorthAnotherTry,
)
from longwatch.model.event import Event, number_of, run_duration_ms
from longwatch.model.run import Status
from longwatch.polling.backoff import Backoff
from longwatch.remote.blocking_client import BlockingClient
from longwatch.remote.client import project_path, turn_path
from longwatch.remote.executor_watchdog import ExecutorWatchdog
from longwatch.turns.events import EventMaker
from longwatch.turns.ids import new_id, new_turn_id
from longwatch.turns.line_reader import LineReader, LineResult
from longwatch.turns.turn import TurnState
from longwatch.turns.turn_sink import TurnName

MAX_LINE_BYTES = 15 * 1024 * 1024  # the server accepts a body of 16 MiB
RETRY_SECONDS = 300.0  # enough for a server to be replaced
START_SECONDS = 20.0  # for calls before the command starts
WAIT_SECONDS = 25  # of a long poll
REST_SECONDS = 1.0  # between long polls: each fed line ends one
CUT_CHARACTERS = 100_000  # of a line that is too long for a body
MOST_EXIT_CODE = 2**31
RETRIES = Backoff(0.2, 2.0, 5.0, jitter=0.25)

STATUSES: Mapping[str, Status] = {
    "pending": Status.PENDING,
    "running": Status.RUNNING,
    "completed": Status.SUCCEEDED,
    "failed": Status.FAILED,
}

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RemoteTurnStatus:
    """The status of a turn on a server. A cancelled turn has failed, with a reason."""

    turn_id: str
    status: Status = Status.PENDING
    error: str | None = None
    duration_ms: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in (Status.SUCCEEDED, Status.FAILED)

    @classmethod
    def of(cls, wire: Mapping[str, Any], turn_id: str) -> RemoteTurnStatus:
        status = STATUSES.get(wire["status"], Status.UNKNOWN)
        created, completed = wire.get("created_at"), wire.get("completed_at")
        took = None
        if created is not None and completed is not None:
            took = run_duration_ms(ms_from_iso(created), ms_from_iso(completed))
        return cls(turn_id, status, wire.get("error"), took)


@dataclass(frozen=True, slots=True)
class RemoteTurn:
    """A turn on a server that can be executed."""

    name: TurnName
    number: int
    prompt: str | None


def create_turn(
    client: BlockingClient, clock: Clock, project_id: str, session_id: str | None, prompt: str | None
) -> RemoteTurn:
    """Create a turn on a server, with its project and session if they do not exist."""
    session, turn_id = session_id or new_id(), new_turn_id()
    # The first call fails at once if the server is unreachable; later ones wait for a restart.
    client.post("/api/projects", {"id": project_id})
    sessions = f"{project_path(project_id)}/sessions"
    call_with_retries(clock, lambda: client.post(sessions, {"id": session}))
    request = {"id": turn_id, **({} if prompt is None else {"prompt": prompt})}
    turns = turn_path(project_id, session, turn_id).rpartition("/")[0]
    return _turn(call_with_retries(clock, lambda: client.post(turns, request)))


def find_turn(client: BlockingClient, turn_id: str) -> RemoteTurn:
    """Find a turn on a server by its id. Its run names project and session."""
    try:
        run = client.get(f"/api/runs/{quote(turn_id, safe='')}").value
        kind, _, conversation = str(run.get("parent_run_id") or "").partition(":")
        if kind != "conversation":
            raise TurnNotFound(f"{turn_id!r} is not a turn. Check the id.")
        project_id, _, session_id = conversation.partition(":")
        return _turn(client.get(turn_path(project_id, session_id, turn_id)).value)
    except RequestRefused as error:
        if error.status == 404:
            raise TurnNotFound(error.message) from error
        raise


class RemoteTurnSink:
    """Sends the output of one turn to the server."""

    max_line_bytes = MAX_LINE_BYTES
    retry_seconds = RETRY_SECONDS

    def __init__(
        self,
        calls: BlockingClient,
        name: TurnName,
        *,
        maker: EventMaker,
        warn: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self.path = turn_path(name.project_id, name.conversation_id, name.turn_id)
        self._calls = calls
        self._turn_id = name.turn_id
        self._maker = maker
        self._warn = warn
        self._clock = clock
        self._status = RemoteTurnStatus(name.turn_id)
        self._watchdog: ExecutorWatchdog | None = None
        self._closed = threading.Event()

    def start(self, *, executor: str, process: Mapping[str, object]) -> int:
        # The outbox is a file on this machine, which concerns no server.
        given = {name: value for name, value in process.items() if name != "outbox" and value is not None}
        claim = {"executor": executor[:200], "process": given, "claim": new_id()}
        response = call_with_retries(self._clock, lambda: self._post("start", claim))
        self._watchdog = ExecutorWatchdog.start_process(
            self._calls.base_url, self._calls.token, self.path, _exit_message(given)
        )
        threading.Thread(target=self._poll_status, name="longwatch-turn-watch", daemon=True).start()
        return int(number_of(response, "next_line") or 1)

    def feed(self, lines: Sequence[str], first_line: int) -> LineResult:
        try:
            response = self._post_lines(lines, first_line)
        except RequestRefused as error:
            if error.status != 413:
                raise
            return self._feed_in_parts(lines, first_line)
        return LineResult(
            int(response["accepted"]),
            int(response["blocks"]),
            str(response["status"]),
            tuple(self._events(lines, first_line)),
        )

    def read_status(self) -> RemoteTurnStatus:
        return self._status

    def end(self, type: str, fields: Mapping[str, object]) -> RemoteTurnStatus:
        response = self._post("end", ending_body(type, fields))
        return RemoteTurnStatus.of(response, self._turn_id)

    def close(self, *, is_over: bool = True) -> None:
        """Stop polling the turn. If it is not over, the watchdog reports that the executor has exited."""
        self._closed.set()
        if is_over and self._watchdog is not None:
            self._watchdog.cancel()

    def _feed_in_parts(self, lines: Sequence[str], first_line: int) -> LineResult:
        """Feed lines whose body is too large for the server, or for a proxy in front of it."""
        if len(lines) > 1:
            half = len(lines) // 2
            first = self.feed(lines[:half], first_line)
            second = self.feed(lines[half:], first_line + half)
            return LineResult(
                first.accepted + second.accepted,
                first.blocks + second.blocks,
                second.status,
                first.events + second.events,
            )
        text = lines[0]
        if len(text) <= CUT_CHARACTERS:
            raise NotWorthAnotherTry(
                f"The server rejects a body of {len(text)} characters. Raise the limit of the proxy in front "
                "of it, such as nginx's client_max_body_size."
            )
        self._warn(f"line {first_line} was cut because it is too long for the server")
        return self.feed([f"{text[:CUT_CHARACTERS]}…[cut, {len(text) - CUT_CHARACTERS} more]"], first_line)

    def _events(self, lines: Sequence[str], first_line: int) -> list[Event]:
        """The events that the server makes of the lines, for display; only their times may differ."""
        now, state = self._clock.now_ms(), TurnState(self._turn_id)
        reader = LineReader(state, self._maker, now, keep_output=True, defer_end=True)
        return reader.batch(lines, first_line).events

    def _post(self, what: str, value: Mapping[str, object]) -> Any:
        return self._call_server(lambda: self._calls.post(f"{self.path}/{what}", value))

    def _post_lines(self, lines: Sequence[str], first_line: int) -> Any:
        body = "\n".join(lines).encode(errors="replace")
        query = {"first": first_line, "keep_output": "true", "defer_end": "true"}
        return self._call_server(lambda: self._calls.post_lines(f"{self.path}/lines", query, body))

    def _call_server(self, call: Callable[[], R]) -> R:
        """Make a call, and convert errors of the server to those that a journal raises."""
        try:
            return call()
        except RequestRefused as error:
            if error.code == "turn_ended":
                raise TurnEnded(self._turn_id, "failed") from error
            if error.code == "turn_taken":
                raise TurnTaken(error.message) from error
            raise

    def _poll_status(self) -> None:
        """Poll the status of the turn, with retries while the server is unreachable."""
        etag: str | None = None
        backoff = RETRIES
        while not self._closed.is_set() and not self._status.has_ended:
            try:
                response = self._calls.get(
                    f"{self.path}/status", {"wait": WAIT_SECONDS}, etag=etag, longer_seconds=WAIT_SECONDS
                )
            except WorthAnotherTry:
                backoff = backoff.failed()
            except NotWorthAnotherTry:
                return  # the next feed raises it
            else:
                backoff = backoff.succeeded()
                etag = response.etag or etag
                if response.value is not None:
                    self._status = RemoteTurnStatus.of(response.value, self._turn_id)
            self._closed.wait(backoff.delay or REST_SECONDS)


def _exit_message(process: Mapping[str, object]) -> str:
    """The same message as for a process that the server can observe."""
    return f"Process {process.get('pid')} on {process.get('host')} exited without reporting an outcome."


def ending_body(type: str, fields: Mapping[str, object]) -> dict[str, object]:
    """The request body that ends a turn."""
    body: dict[str, object] = {"status": type.removeprefix("turn_")}
    if "error_message" in fields:
        body["error"] = str(fields["error_message"])[:10_000]
    code = fields.get("exit_code")
    if isinstance(code, int) and 0 <= code <= MOST_EXIT_CODE:
        body["exit_code"] = code
    for name in ("signal", "execution_time_ms", "stderr", "leftover_pid"):
        if fields.get(name) is not None:
            body[name] = fields[name]
    return body


def call_with_retries(clock: Clock, call: Callable[[], R], seconds: float = START_SECONDS) -> R:
    """Make a call that may be repeated, with retries up to this time."""
    give_up_at, backoff = clock.monotonic() + seconds, RETRIES
    while True:
        try:
            return call()
        except WorthAnotherTry:
            backoff = backoff.failed()
            if clock.monotonic() >= give_up_at:
                raise
            clock.sleep(backoff.delay or 0.0)


def _turn(wire: Mapping[str, Any]) -> RemoteTurn:
    name = TurnName(wire["project_id"], wire["session_id"], wire["id"])
    return RemoteTurn(name, int(wire["number"]), wire["prompt"])
