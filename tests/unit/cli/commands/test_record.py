"""`longwatch record` reads fields and payloads from the command line and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.cli.commands.record import field_from, payload_from
from longwatch.errors import InvalidInput


def test_fields_are_text_unless_marked_otherwise() -> None:
    assert field_from("version=1.10") == ("version", "1.10")
    assert field_from("count:=3") == ("count", 3)
    assert field_from("equation=a=b") == ("equation", "a=b")
    assert field_from("empty=") == ("empty", "")
    with pytest.raises(InvalidInput):
        field_from("=x")


def test_a_payload_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "payload.json").write_text('{"rows": 3}', encoding="utf-8")

    assert payload_from("@payload.json") == {"rows": 3}
    assert payload_from('{"rows": 3}') == {"rows": 3}
    assert payload_from(None) == {}
