"""The last messages of a topic, kept once for all who follow it live."""

from __future__ import annotations

from collections.abc import Sequence

from longwatch.server.feed.messages import Frame

RING_FRAMES = 1_000
RING_BYTES = 512 * 1024  # those that fell behind read on from the journal
CHUNK_FRAMES = 256  # that are sent in one go
CHUNK_BYTES = 128 * 1024
CHUNKS = 8  # pieces that are kept joined; viewers that keep up need one


Chunk = tuple[bytes, int, str]


class Lapped(Exception):
    """Somebody was so slow that what comes next for them is no longer here."""

    def __init__(self, count: int) -> None:
        self.count = count  # frames
        super().__init__(count)


class Ring:
    """Frames, each at a place that only grows. Old ones go when there are too many, or too much."""

    def __init__(self, cursor: str, *, frames: int = RING_FRAMES, size: int = RING_BYTES) -> None:
        self.cursor = cursor  # where the topic stands after the last frame
        self.end = 0  # the place of the next frame
        self._frames: list[Frame] = []
        self._most_frames = frames
        self._most_bytes = size
        self._bytes = 0
        self._places: dict[str, int] = {cursor: 0}  # of the first frame past a cursor
        self._starts = [cursor]  # the cursor before each frame, then the current one
        self._chunks: dict[
            int, Chunk
        ] = {}  # by the place where they begin; all who stand there take the same

    @property
    def begin(self) -> int:
        """The place of the oldest frame."""
        return self.end - len(self._frames)

    def push(self, frame: Frame) -> None:
        """Add a frame at the end."""
        self._frames.append(frame)
        self._bytes += len(frame.data)
        self.end += 1
        if frame.cursor is not None:
            self.cursor = frame.cursor
        # A frame that leaves the cursor where it was is sent again to whoever resumes there.
        self._places.setdefault(self.cursor, self.end)
        self._starts.append(self.cursor)
        self._chunks.clear()
        if len(self._frames) > 2 * self._most_frames or self._bytes > self._most_bytes:
            self._shrink()

    def stand_at(self, cursor: str) -> None:
        """The topic has come this far without another message."""
        if cursor != self.cursor:
            self.cursor = self._starts[-1] = cursor
            self._places.setdefault(cursor, self.end)

    def place_of(self, cursor: str) -> int | None:
        """Where somebody goes on who stands at this cursor; None if the ring does not know."""
        return self._places.get(cursor)

    def after(self, place: int, *, frames: int = CHUNK_FRAMES, size: int = CHUNK_BYTES) -> Sequence[Frame]:
        """Some frames from this place on, at least one if there is one."""
        first = place - self.begin
        if first < 0:
            raise Lapped(-first)
        found = self._frames[first : first + frames]
        total = 0
        for count, frame in enumerate(found):
            total += len(frame.data)
            if total > size and count:
                return found[:count]
        return found

    def all_after(self, place: int) -> Sequence[Frame]:
        """Everything from this place on."""
        return self.after(place, frames=len(self._frames), size=self._bytes)

    def chunk(self, place: int) -> Chunk:
        """The same as one piece of a stream of this topic alone, with the place and the cursor after it."""
        chunk = self._chunks.get(place)
        if chunk is None:
            found = self.after(place)
            data = found[0].sse if len(found) == 1 else b"".join([frame.sse for frame in found])
            end = place + len(found)
            if len(self._chunks) >= CHUNKS:
                self._chunks.clear()
            chunk = self._chunks[place] = (data, end, self.cursor_at(end))
        return chunk

    def cursor_at(self, place: int) -> str:
        """Where somebody stands who has taken everything before this place, which must still be here."""
        return self._starts[place - self.end - 1]

    def _shrink(self) -> None:
        """Drop the oldest frames. The newest always stays."""
        count = max(0, len(self._frames) - self._most_frames)
        left = self._bytes - sum(len(frame.data) for frame in self._frames[:count])
        while left > self._most_bytes // 2 and count < len(self._frames) - 1:
            left -= len(self._frames[count].data)
            count += 1
        del self._frames[:count]
        for cursor in self._starts[:count]:
            if self._places.get(cursor, self.end) < self.begin:
                del self._places[cursor]
        del self._starts[:count]
        self._bytes = left
