"""Parses the state vector and the delete set of a Yjs document.

pycrdt returns both as bytes. Comparing the bytes is not enough: the order of the clients may differ.
"""

from __future__ import annotations

from dataclasses import dataclass

EMPTY_UPDATE = b"\x00\x00"  # no blocks, nothing deleted

MAX_BITS = 63  # of a number; JavaScript's integers have 53

StateVector = dict[int, int]
"""Client -> how many of its units exist."""

DeleteSet = dict[int, list[tuple[int, int]]]
"""Client -> half-open ranges of deleted units."""


@dataclass(frozen=True, slots=True)
class DocumentFingerprint:
    """Equal for two documents with the same content: a deletion shows only in `deleted`."""

    deleted: DeleteSet
    units: StateVector

    @classmethod
    def of_snapshot(cls, data: bytes) -> DocumentFingerprint:
        """Parse an encoded Yjs snapshot."""
        reader = VarintReader(data)
        return cls(_delete_set(reader), _state_vector(reader))


def state_vector(data: bytes) -> StateVector:
    """Parse an encoded state vector."""
    return _state_vector(VarintReader(data))


def waits_for_more(rest: bytes, units: StateVector) -> bool:
    """Whether a part of an update cannot take effect before another update arrives.

    `rest` is the update without the blocks that the document has. Remaining blocks depend on earlier ones,
    and deletions on the units that they delete.
    """
    reader = VarintReader(rest)
    if reader.next():
        return True
    return any(
        end > units.get(client, 0) for client, ranges in _delete_set(reader).items() for _, end in ranges
    )


def _state_vector(reader: VarintReader) -> StateVector:
    pairs = [(reader.next(), reader.next()) for _ in range(reader.next())]
    return {client: clock for client, clock in pairs if clock}


def _delete_set(reader: VarintReader) -> DeleteSet:
    found: DeleteSet = {}
    for _ in range(reader.next()):
        client = reader.next()
        ranges = []
        for _ in range(reader.next()):
            first = reader.next()
            ranges.append((first, first + reader.next()))
        if ranges:
            found[client] = sorted(ranges)
    return found


class VarintReader:
    """Reads unsigned varints. Raises IndexError at the end and ValueError past 63 bits."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0  # the next byte

    @property
    def left(self) -> int:
        """The number of remaining bytes."""
        return len(self._data) - self.at

    def next(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        if byte < 0x80:  # most are that small, and a long update has many
            return byte
        number, shift = byte & 0x7F, 7
        while True:
            byte = self._data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > MAX_BITS:
                raise ValueError(f"a number has more than {MAX_BITS} bits")

    def byte(self) -> int:
        """The next byte."""
        self.at += 1
        return self._data[self.at - 1]

    def take(self, length: int) -> bytes:
        """The next bytes."""
        if length > self.left:
            raise IndexError(f"{length} bytes are announced and {self.left} remain")
        self.at += length
        return self._data[self.at - length : self.at]
