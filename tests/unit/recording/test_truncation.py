"""Payloads that are too large are cut to fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import decode_payload, encode_payload
from longwatch.journal.dynamodb.values import size_of, to_map
from longwatch.recording.capture import FULL, Capture
from longwatch.recording.redaction import SecretNames
from longwatch.recording.truncation import TRUNCATED, fitted, stored_size

LIMIT = 350 * 1024


def cut(payload: dict[str, object], max_bytes: int = LIMIT) -> tuple[dict[str, object], str]:
    kept, text = fitted(payload, encode_payload(payload), max_bytes)
    return dict(kept), text


def test_what_fits_is_left_alone() -> None:
    payload: dict[str, object] = {"a": "x" * 300_000}

    kept, text = cut(payload)

    assert kept == payload
    assert text == encode_payload(payload)


def test_what_is_too_large_is_cut_and_names_its_size() -> None:
    payload: dict[str, object] = {"long": "x" * 400_000, "short": "kept", "n": 7}

    kept, text = cut(payload)

    assert kept["short"] == "kept"
    assert kept["n"] == 7
    assert kept[TRUNCATED] == {"original_bytes": len(encode_payload(payload))}
    assert str(kept["long"]).endswith("…[shortened, 400000 characters]")
    assert len(text.encode()) <= LIMIT
    assert decode_payload(text) == kept


def test_structure_is_kept_before_length() -> None:
    payload: dict[str, object] = {
        "rows": [{"id": n, "text": "y" * 5_000} for n in range(120)],
        "status": "completed",
    }

    kept, _ = cut(payload)

    rows = kept["rows"]
    assert isinstance(rows, list)
    assert len(rows) == 120
    assert [row["id"] for row in rows] == list(range(120))
    assert kept["status"] == "completed"


def test_long_lists_and_maps_say_how_much_is_gone() -> None:
    kept, _ = cut({"many": list(range(200_000)), "map": {f"k{n}": n for n in range(50_000)}})

    many, named = kept["many"], kept["map"]
    assert isinstance(many, list)
    assert isinstance(named, dict)
    assert many[-1] == f"[{200_000 - len(many) + 1} more]"
    assert named["…"] == f"[{50_000 - len(named) + 1} more]"


def test_long_members_of_a_set_are_cut_too() -> None:
    kept, _ = cut({"set": {"a" * 200_000, "b" * 200_000}, "n": 1})

    assert kept["n"] == 1
    assert isinstance(kept["set"], list)


def test_bytes_are_named_by_their_size() -> None:
    kept, _ = cut({"raw": b"\x00" * 400_000, "n": 1})

    assert kept == {"raw": "<400000 bytes>", "n": 1, TRUNCATED: kept[TRUNCATED]}


def test_cuts_fall_between_characters() -> None:
    _, text = cut({"a": "🌊" * 200_000, "b": "ü" * 200_000})

    assert len(text.encode()) <= LIMIT
    assert "\ufffd" not in text


@pytest.mark.parametrize("max_bytes", [1024, 2048, 10_000])
def test_wide_and_deep_at_once_still_fits(max_bytes: int) -> None:
    wide: dict[str, object] = {f"名{'🌊' * 40}{n}": "x" * 100 for n in range(100)}
    for _ in range(4):
        wide = {f"層{n}{'🌊' * 100}": wide for n in range(3)}

    kept, text = cut(wide, max_bytes)

    assert stored_size(kept, text) <= max_bytes
    assert TRUNCATED in kept


texts = st.text(max_size=8) | st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(1, 400))
payloads = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.integers(-(10**37), 10**37) | texts | st.sets(texts, min_size=1, max_size=5),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6),
        max_leaves=12,
    ),
    max_size=6,
)


@given(payloads, st.integers(1024, 8192))
def test_any_payload_fits_in_json_and_in_a_dynamodb_item(payload: dict[str, object], max_bytes: int) -> None:
    clean = Capture(FULL, SecretNames()).fields(payload)

    kept, text = cut(clean, max_bytes)

    assert len(text.encode()) <= max_bytes
    assert decode_payload(text) == kept
    assert size_of({"payload": to_map(kept)}) <= max_bytes + 50
    if stored_size(clean, encode_payload(clean)) > max_bytes:
        assert kept[TRUNCATED] == {"original_bytes": stored_size(clean, encode_payload(clean))}
    else:
        assert kept == clean
