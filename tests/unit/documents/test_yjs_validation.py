"""What reaches the Yjs library: everything that it makes itself, and nothing that would end the process."""

from __future__ import annotations

import pytest
from pycrdt import Array, Doc, Map, Text, XmlElement, XmlFragment, XmlText

from longwatch.documents.yjs_updates import MAX_LEVELS, check_state_vector, check_update
from longwatch.errors import InvalidUpdate

BLOCK = b"\x01\x01\x01\x00"  # one client, one block, client 1, clock 0
VALUE = b"\x28\x01\x04file\x05bytes\x01"  # a value in the root "file", under the name "bytes"


def number(value: int) -> bytes:
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def test_everything_that_a_document_can_hold_passes() -> None:
    doc: Doc[object] = Doc(client_id=2**32 - 1)  # type: ignore[type-var]
    doc["content"] = Text("hello 😀 e\u0301")
    doc["file"] = Map({"bytes": b"\x00\xff", "n": [1, -2, 2.5, 1e300, None, True, False, {"a": [[]]}, "x"]})
    doc["list"] = Array([Map({"text": Text("inside")}), 2**40])
    doc["xml"] = XmlFragment([XmlElement("p", {"class": "x"}, [XmlText("words")])])
    doc["inner"] = Map({"doc": Doc()})
    doc["content"].insert_embed(1, {"image": "x"})  # type: ignore[attr-defined]
    doc["content"].format(0, 3, {"bold": True})  # type: ignore[attr-defined]
    del doc["content"][0:2]  # type: ignore[attr-defined]
    del doc["list"][0]  # type: ignore[attr-defined]

    check_update(doc.get_update())
    check_state_vector(doc.get_state())
    check_update(b"\x00\x00")
    check_state_vector(b"\x00")


@pytest.mark.parametrize("kind", [b"\x75\x01", b"\x76\x01\x01k"], ids=["lists", "maps"])
def test_values_in_values_in_values_are_refused(kind: bytes) -> None:
    check_update(BLOCK + VALUE + kind * (MAX_LEVELS - 1) + b"\x7e" + b"\x00")

    with pytest.raises(InvalidUpdate, match="nested"):
        check_update(BLOCK + VALUE + kind * 100_000 + b"\x7e" + b"\x00")


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (number(10**8) + b"\x00\x00", "announced"),
        (b"\x01" + number(10**8) + b"\x01\x00\x00\x00", "announced"),
        (b"\x00" + number(10**8), "announced"),
        (b"\x00\x01\x01" + number(10**8) + b"\x00", "announced"),
        (BLOCK + VALUE + b"\x75" + number(10**8) + b"\x00", "announced"),
        (b"\x00\x01\x01\x01" + number(2**32 - 1) + b"\x01", "more than"),
        (b"\x00\x01\x01\x01" + number(2**31) + b"\x01", "reaches past"),
        (b"\x01\x01\x01" + number(2**31) + b"\x00\x01\x00", "more than"),
        (b"\x01\x01" + number(2**54) + b"\x00\x00\x01\x00", "invalid client"),
        (b"\xff" * 1_000_000, "more than 63 bits"),
        (BLOCK + b"\x0b\x01\x04file\x00", "kind of content 11"),
        (BLOCK + VALUE + b"\x01\x00", "kind of value 1"),
        (BLOCK + b"\x04\x01\x07content\xff\x01x\x00", "announced and"),
        (b"", "Invalid Yjs update"),
    ],
)
def test_numbers_that_can_not_be_are_refused(update: bytes, message: str) -> None:
    with pytest.raises(InvalidUpdate, match=message):
        check_update(update)


@pytest.mark.parametrize("state", [b"", b"\x01", number(10**8) + b"\x01\x01", b"\x01\x01" + number(2**40)])
def test_a_state_vector_is_validated_too(state: bytes) -> None:
    with pytest.raises(InvalidUpdate, match="Invalid Yjs state vector"):
        check_state_vector(state)
