"""The text of a block while its message streams: deltas are stored, and the finished block replaces them.

An agent prints a message in fragments of a few characters before it prints the whole block. The writer joins
the fragments of a batch of lines to one `block_delta` event. Readers join the deltas until a block with a
higher line number is there, so a turn that is read later has finished blocks only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from longwatch.model.event import Event, Order, number_of, text_of
from longwatch.turns.dialects.messages import BlockKind

DELTA = "block_delta"
MAX_CHARACTERS = 100_000  # of a block that are streamed; the finished block has the rest

_STREAMED_KINDS = frozenset({BlockKind.THINKING.value, BlockKind.CONTENT.value})
_UNFINISHED_WORD = re.compile(r"[!-~]*\Z")  # a secret has no spaces, and may continue in the next line


@dataclass(frozen=True, slots=True)
class TextStream:
    """The text of the block that an agent is printing, on the side of the writer.

    Secrets are recognised in the whole text so far. Its last word is not released before it is complete.
    """

    kind: BlockKind
    text: str = ""  # as printed
    released: str = ""  # redacted, and stored

    def plus(self, text: str) -> TextStream:
        """The stream with another fragment."""
        return replace(self, text=self.text + text)

    def release(self, redact: Callable[[str], str]) -> tuple[TextStream | None, str]:
        """The stream after its next delta, and the text of the delta.

        None ends the stream: it is long, or text that was released has become part of a secret.
        """
        unfinished = _UNFINISHED_WORD.search(self.text)
        shown = redact(self.text[: unfinished.start()] if unfinished else self.text)
        if len(self.text) > MAX_CHARACTERS or not shown.startswith(self.released):
            return None, ""
        return replace(self, released=shown), shown[len(self.released) :]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The text that one event adds to a block."""

    line_number: int
    order: Order
    kind: str
    text: str
    is_first: bool  # of its block

    @property
    def sort_key(self) -> tuple[int, Order]:
        return self.line_number, self.order

    @classmethod
    def of(cls, event: Event) -> TextDelta | None:
        """The delta of an event; None if it has no line number or no known kind."""
        number, kind = number_of(event.payload, "line_number"), text_of(event.payload, "kind")
        if number is None or kind not in _STREAMED_KINDS:
            return None
        text = text_of(event.payload, "text") or ""
        return cls(int(number), event.order, kind, text, event.payload.get("first") is True)


@dataclass(frozen=True, slots=True)
class StreamingBlock:
    """A block that is not finished: the deltas so far."""

    deltas: tuple[TextDelta, ...]

    @classmethod
    def of(cls, deltas: Sequence[TextDelta]) -> StreamingBlock | None:
        """The last block that these deltas, in their order, began: an agent that retries begins again."""
        starts = [index for index, delta in enumerate(deltas) if delta.is_first]
        return cls(tuple(deltas[starts[-1] if starts else 0 :])) if deltas else None

    @property
    def id(self) -> str:
        """The id of its first event."""
        return self.deltas[0].order[3]

    @property
    def kind(self) -> str:
        return self.deltas[0].kind

    @property
    def created_at(self) -> int:
        return self.deltas[0].order[0]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    def since(self, before: StreamingBlock | None) -> int:
        """How many of its deltas a reader of an earlier state has; 0 if that was another block."""
        if before is None or before.deltas != self.deltas[: len(before.deltas)]:
            return 0
        return len(before.deltas)
