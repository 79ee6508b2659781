"""Lines as a coding agent prints them, for the tests of turns."""

from __future__ import annotations

import json
from collections.abc import Mapping

from longwatch.testing.clock import FakeClock
from longwatch.turns import Conversations
from tests.contract.events import OpenAgain


class TickingClock(FakeClock):
    """Virtual time that advances by a millisecond with every reading, so that no two writers share one."""

    def now_ms(self) -> int:
        self.advance(0.001)
        return super().now_ms()


def line(**fields: object) -> str:
    return json.dumps(fields)


def assistant(*items: Mapping[str, object], **more: object) -> str:
    return line(type="assistant", message={"role": "assistant", "content": list(items)}, **more)


def text(description: str) -> dict[str, object]:
    return {"type": "text", "text": description}


def tool_use(id: str, name: str = "Bash", **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def tool_result(id: str, content: object, *, is_error: bool = False) -> str:
    item = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error}
    return line(type="user", message={"role": "user", "content": [item]})


def result(description: str = "done", *, is_error: bool = False) -> str:
    return line(type="result", subtype="success", is_error=is_error, result=description, duration_ms=12)


class Session:
    """A project `p` with a session `s`, as one process sees it."""

    def __init__(self, open_again: OpenAgain, clock: FakeClock) -> None:
        self.journal = open_again()
        self.all = Conversations(self.journal, clock)
        self.all.create_project("p", "The project")
        self.all.create_conversation("p", "s")

    def turn(self, prompt: str | None = "do it") -> str:
        return self.all.create_turn("p", "s", prompt).turn_id
