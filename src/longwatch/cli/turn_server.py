"""`longwatch turn --server`: the turn is on a server; what cannot be sent there is kept in a file here."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from longwatch.cli.commands.turn import DEFAULT_PROJECT, TurnRequest, TurnTarget
from longwatch.cli.options import Invocation
from longwatch.errors import LongwatchError
from longwatch.journal.memory import MemoryJournal
from longwatch.remote.blocking_client import ServerCalls
from longwatch.remote.turn_sink import RemoteTurns, ServerDesk
from longwatch.settings import Settings, data_directory, make_private_directory
from longwatch.turns.events import EventMaker


@contextmanager
def on_server(
    wanted: TurnRequest,
    server: str,
    token: str | None,
    settings: Settings,
    invocation: Invocation,
    *,
    tell: Callable[[str], None],
) -> Iterator[TurnTarget]:
    """A turn on a server."""
    calls = ServerCalls(server, token=token)
    turns = RemoteTurns(calls, invocation.clock)
    if wanted.turn_id is not None:
        turn = turns.find(wanted.turn_id, wanted.project, wanted.session)
    else:
        turn = turns.create(wanted.project or DEFAULT_PROJECT, wanted.session, wanted.prompt)
    maker = EventMaker(MemoryJournal(), settings)
    desk = ServerDesk(calls, turn.name, maker=maker, tell=tell, clock=invocation.clock)
    left = LeftLines(
        data_directory() / "turns" / f"{turn.name.turn_id}.lines", f"{calls.base_url}{desk.path}"
    )
    is_over = False
    try:
        yield TurnTarget(
            name=turn.name,
            number=turn.number,
            prompt=turn.prompt if wanted.prompt is None else wanted.prompt,
            desk=desk,
            journal_url=None,
            look=f"{calls.base_url}/projects/{turn.name.project_id}/sessions/{turn.name.conversation_id}",
            keep=left.keep,
        )
        is_over = True
    except LongwatchError:
        is_over = True  # the server is away for good, or refuses: it is of no use to tell it more
        raise
    finally:
        desk.close(is_over=is_over)
        if left.first is not None:
            tell(left.told())


class LeftLines:
    """A file with the lines that the server did not take."""

    def __init__(self, path: Path, url: str) -> None:
        self.first: int | None = None  # the number of the first line in it
        self._path = path
        self._url = url

    def keep(self, first_line: int, lines: Sequence[str]) -> None:
        """Add lines, which follow those that are there."""
        if self.first is None:
            make_private_directory(self._path.parent)
            self._path.unlink(missing_ok=True)
            self._path.touch(mode=0o600)
            self.first = first_line
        with self._path.open("a", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)

    def told(self) -> str:
        """Where they are, and how they are sent when the server answers again."""
        where = shlex.quote(str(self._path))
        url = f"{self._url}/lines?first={self.first}&keep_output=true"
        return (
            f"the lines from {self.first} on are kept in {self._path}. Send them later: curl --data-binary "
            f"@{where} -H 'Content-Type: application/x-ndjson' {shlex.quote(url)} (with -H 'Authorization: "
            "Bearer …' if the server wants a token). A turn that has ended by then takes no more"
        )
