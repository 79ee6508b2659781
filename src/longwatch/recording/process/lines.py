"""Bytes as they come out of a pipe, put together to lines. How the bytes were cut up makes no difference."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE_BYTES = 1_000_000  # of one line; a program that never ends its line must not fill our memory


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. Bytes that are no UTF-8 have become U+FFFD."""

    text: str
    left_out: int = 0  # bytes past the limit that are not in `text`

    @property
    def shown(self) -> str:
        """The text, with a note if some of it is missing."""
        return f"{self.text}…[cut, {self.left_out} more bytes]" if self.left_out else self.text


class LineSplitter:
    """Cuts a stream into lines at `\\n` or `\\r\\n`, holding back what is not a whole line yet."""

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._begun = bytearray()  # of the line that has not ended yet, up to the limit
        self._left_out = 0
        self._last = b""  # of the bytes left out, to know a carriage return before the line's end

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that these bytes complete."""
        *ends, rest = chunk.split(b"\n")
        for part in ends:
            self._add(part)
            yield self._ended(complete=True)
        self._add(rest)

    def flush(self) -> Iterator[Line]:
        """The last line, if the stream did not end with a line's end."""
        if self._begun:
            yield self._ended(complete=False)

    def _add(self, part: bytes) -> None:
        room = self._max - len(self._begun)
        self._begun += part[:room]
        if len(part) > room:
            self._left_out += len(part) - room
            self._last = part[-1:]

    def _ended(self, *, complete: bool) -> Line:
        line, left_out = bytes(self._begun), self._left_out
        if complete and (self._last == b"\r" if left_out else line.endswith(b"\r")):
            if left_out:
                left_out -= 1
            else:
                line = line[:-1]
        self._begun, self._left_out, self._last = bytearray(), 0, b""
        # A character that the limit cuts in two is left out whole, rather than shown as a broken one.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return Line(decoder.decode(line, final=not left_out), left_out)
