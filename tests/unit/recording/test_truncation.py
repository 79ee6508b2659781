"""Payloads that are too large are cut to fit."""

from __future__ import annotations

import base64
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import decode_payload, encode_payload
from longwatch.recording.capture import FULL, SUMMARY, Capture, CaptureLimits, capture_fields
from longwatch.recording.producers import clean_payload
from longwatch.recording.secret_names import SecretNames
from longwatch.recording.truncation import TRUNCATED, fit_payload, stored_size
from longwatch.storage.dynamodb.values import size_of, to_map

LIMIT = 350 * 1024


def cut(payload: dict[str, object], max_bytes: int = LIMIT) -> tuple[dict[str, object], str]:
    fitted, text = fit_payload(payload, encode_payload(payload), max_bytes)
    return dict(fitted), text


def test_a_payload_that_fits_is_left_alone() -> None:
    payload: dict[str, object] = {"a": "x" * 300_000}

    fitted, text = cut(payload)

    assert fitted == payload
    assert text == encode_payload(payload)


def test_a_payload_that_is_too_large_is_cut_and_names_its_size() -> None:
    payload: dict[str, object] = {"long": "x" * 400_000, "short": "kept", "n": 7}

    fitted, text = cut(payload)

    assert fitted["short"] == "kept"
    assert fitted["n"] == 7
    assert fitted[TRUNCATED] == {"original_bytes": len(encode_payload(payload))}
    assert str(fitted["long"]).endswith("…[shortened, 400000 characters]")
    assert len(text.encode()) <= LIMIT
    assert decode_payload(text) == fitted


def test_structure_is_preserved_before_length() -> None:
    payload: dict[str, object] = {
        "rows": [{"id": n, "text": "y" * 5_000} for n in range(120)],
        "status": "completed",
    }

    fitted, _ = cut(payload)

    rows = fitted["rows"]
    assert isinstance(rows, list)
    assert len(rows) == 120
    assert [row["id"] for row in rows] == list(range(120))
    assert fitted["status"] == "completed"


def test_long_lists_and_maps_state_how_much_is_cut() -> None:
    fitted, _ = cut({"many": list(range(200_000)), "map": {f"k{n}": n for n in range(50_000)}})

    many, named = fitted["many"], fitted["map"]
    assert isinstance(many, list)
    assert isinstance(named, dict)
    assert many[-1] == f"[{200_000 - len(many) + 1} more]"
    assert named["…"] == f"[{50_000 - len(named) + 1} more]"


def test_long_members_of_a_set_are_cut_too() -> None:
    fitted, _ = cut({"set": {"a" * 200_000, "b" * 200_000}, "n": 1})

    assert fitted["n"] == 1
    assert isinstance(fitted["set"], list)


def test_bytes_keep_their_beginning_and_state_how_many_there_were() -> None:
    fitted, _ = cut({"raw": b"\x00" * 400_000, "n": 1})

    raw = fitted["raw"]
    assert isinstance(raw, list)
    assert len(raw[0]) > 0.95 * LIMIT * 3 / 4
    assert raw[1] == "[400000 bytes in all]"
    assert fitted["n"] == 1


def test_cuts_fall_between_characters() -> None:
    _, text = cut({"a": "🌊" * 200_000, "b": "ü" * 200_000})

    assert len(text.encode()) <= LIMIT
    assert "\ufffd" not in text


@pytest.mark.parametrize("max_bytes", [1024, 2048, 10_000])
def test_wide_and_deep_at_once_still_fits(max_bytes: int) -> None:
    wide: dict[str, object] = {f"名{'🌊' * 40}{n}": "x" * 100 for n in range(100)}
    for _ in range(4):
        wide = {f"層{n}{'🌊' * 100}": wide for n in range(3)}

    fitted, text = cut(wide, max_bytes)

    assert stored_size(fitted, text) <= max_bytes
    assert TRUNCATED in fitted


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

    fitted, text = cut(clean, max_bytes)

    assert len(text.encode()) <= max_bytes
    assert decode_payload(text) == fitted
    assert size_of({"payload": to_map(fitted)}) <= max_bytes + 50
    if stored_size(clean, encode_payload(clean)) > max_bytes:
        assert fitted[TRUNCATED] == {"original_bytes": stored_size(clean, encode_payload(clean))}
    else:
        assert fitted == clean


CLOSE = {
    "200 bytes too many": {"text": "x" * (LIMIT + 200)},
    "a long text beside others": {"text": "x" * 2_000_000, "n": 1, "short": "y" * 5_000},
    "many texts": {f"field{n}": "x" * 3_000 for n in range(200)},
    "escapes and wide characters": {"text": '\n"🌊\x00' * 90_000},
    "plain first, escapes later": {"text": "x" * 200_000 + "\x00" * 200_000},
    "many numbers": {"rows": list(range(120_000))},
    "many rows": {"rows": [{"id": n, "name": f"row {n}", "tags": ["a", "b"]} for n in range(9_000)]},
    "rows with long texts": {"rows": [{"id": n, "text": "y" * 5_000} for n in range(120)]},
    "a wide map": {f"k{n}": n for n in range(60_000)},
    "a set": {"set": {f"member {n}" for n in range(40_000)}},
    "bytes": {"raw": b"x" * 400_000},
    "nested": {
        "a": {"b": {"c": "x" * 200_000, "d": ["y" * 1_000] * 300}},
        "e": [[n] * 9 for n in range(9_000)],
    },
}


@pytest.mark.parametrize("payload", CLOSE.values(), ids=CLOSE)
def test_as_much_as_fits_is_preserved(payload: dict[str, object]) -> None:
    fitted, text = cut(payload)

    assert 0.95 * LIMIT <= stored_size(fitted, text) <= LIMIT


def marks_of(value: object, original: object) -> bool:
    """Whether every text, list and map that is shorter than the original carries a marker of its own."""
    if isinstance(original, str):
        if value == original:
            return True
        body = str(value).removesuffix(f"…[shortened, {len(original)} characters]")
        return body != value and original.startswith(body)
    if isinstance(original, dict):
        assert isinstance(value, dict)
        gone = len(original) - len(value.keys() & original.keys())
        marked = value.get("…") == f"[{gone} more]" if gone else "…" not in value
        return marked and all(marks_of(value[key], original[key]) for key in value.keys() & original.keys())
    if isinstance(original, list):
        assert isinstance(value, list)
        if len(value) == len(original) and not str(value[-1]).endswith(" more]"):
            items = value
        else:
            items = value[:-1]
            if value[-1] != f"[{len(original) - len(items)} more]":
                return False
        return all(map(marks_of, items, original))
    return value == original


def tree(random: Random, depth: int) -> object:
    kind = random.randrange(2 if depth == 0 else 5)
    if kind == 0:
        return random.randrange(10**9)
    if kind == 1:
        return "t" * random.randrange(3_000)
    size = int(40 ** random.random())
    if kind == 2:
        return {f"k{n}": tree(random, depth - 1) for n in range(size)}
    return [tree(random, depth - 1) for _ in range(size)]


@given(st.integers(0, 2**32), st.integers(8_192, 60_000))
def test_any_cut_comes_close_to_the_limit_and_is_marked(seed: int, max_bytes: int) -> None:
    random = Random(seed)
    payload = {f"field{n}": tree(random, 3) for n in range(4)}
    fitted, text = cut(payload, max_bytes)
    original = stored_size(payload, encode_payload(payload))

    if original <= max_bytes:
        assert fitted == payload
    else:
        assert 0.95 * max_bytes <= stored_size(fitted, text) <= max_bytes
        assert fitted.pop(TRUNCATED) == {"original_bytes": original}
        assert marks_of(fitted, payload)


def truncated_when_recorded(payload: dict[str, object], limits: CaptureLimits = FULL) -> object:
    copy, weight = capture_fields(payload, limits, SecretNames())
    fitted, _ = clean_payload(copy, LIMIT, weight)
    return fitted[TRUNCATED]


def nested(levels: int, value: object) -> dict[str, object]:
    for _ in range(levels):
        value = {"inner": value, "n": 1}
    return {"nested": value}


CUT_BY_CAPTURE: dict[str, dict[str, object]] = {
    "a long text": {"text": "x" * 3_000_000, "n": 1},
    "escapes": {"text": "é\n" * 1_000_000},
    "wide characters after the cut": {"text": "x" * 399_000 + "🌊" * 50_000},
    "4,400,000 characters": {"text": "x" * 4_400_000},
    "bytes beside a text": {"raw": b"\x00" * 500_000, "text": "x" * 358_400},
    "bytes that base64 has to pad": {"raw": b"\x00" * 500_002},
    "one item too many": {"rows": list(range(200_001))},
    "more bytes as a DynamoDB map than as JSON": {"rows": [1] * 200_001},
    "a text below the deepest level": nested(40, "x" * 400_000),
    "a list below the deepest level": nested(150, [{"n": n, "is": True, "no": None} for n in range(1_000)]),
    "little below the deepest level": nested(30, {"raw": b"12", "texts": ["ü", "\n", ()]}),
}


@pytest.mark.parametrize("payload", CUT_BY_CAPTURE.values(), ids=CUT_BY_CAPTURE)
def test_the_original_size_is_that_before_capture_cut_the_payload(payload: dict[str, object]) -> None:
    assert truncated_when_recorded(payload) == {"original_bytes": whole_size(payload)}


def test_entries_that_capture_leaves_out_are_measured_with_their_names() -> None:
    payload: dict[str, object] = {"map": {f"nüme {n}": [n, {}] for n in range(30)}}

    truncated = truncated_when_recorded(
        payload, CaptureLimits(characters=100, items=20, depth=9, total=90_000)
    )

    assert truncated == {"original_bytes": whole_size(payload)}


def whole_size(payload: dict[str, object]) -> int:
    """The size of a payload that may nest deeper than a journal stores."""
    text = json.dumps(
        payload,
        ensure_ascii=False,
        separators=(",", ":"),
        default=lambda value: {"$bytes": base64.b64encode(value).decode()},
    )
    return stored_size(payload, text)


@pytest.mark.parametrize(
    "payload",
    [{"text": "ü" * 5_000_000}, {"rows": [1] * 400_000}, {"rows": [{}] * 80_000}],
    ids=["characters", "items", "containers"],
)
def test_of_what_is_too_much_to_measure_a_minimum_is_stated(payload: dict[str, object]) -> None:
    truncated = truncated_when_recorded(payload)

    assert isinstance(truncated, dict)
    assert truncated["at_least"] is True
    assert 0.5 * whole_size(payload) < truncated["original_bytes"] <= whole_size(payload)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize("value", [ENDLESS, {"password": "hunter2"}, {1: 2}, [{"$set": 1}], object(), 1.5])
def test_below_the_deepest_level_what_has_another_stored_form_makes_it_a_minimum(value: object) -> None:
    truncated = truncated_when_recorded(nested(30, [value]))

    assert isinstance(truncated, dict)
    assert truncated["at_least"] is True


def test_a_summary_is_not_marked_as_truncated() -> None:
    copy, weight = capture_fields({"text": "x" * 2_000, "deep": nested(9, 1)}, SUMMARY, SecretNames())

    fitted, _ = clean_payload(copy, LIMIT, weight)

    assert TRUNCATED not in fitted


def test_bytes_beyond_the_limit_of_capture_keep_as_much_as_fits() -> None:
    raw = bytes(range(256)) * 4_000
    copy, weight = capture_fields({"raw": raw}, FULL, SecretNames())

    fitted, text = clean_payload(copy, LIMIT, weight)

    held = fitted["raw"]
    assert isinstance(held, list)
    beginning, marker = held
    assert raw.startswith(beginning)
    assert marker == "[1024000 bytes in all]"
    assert 0.95 * LIMIT <= stored_size(fitted, text) <= LIMIT


def test_where_capture_could_not_measure_what_it_left_out_the_size_is_a_minimum() -> None:
    truncated = truncated_when_recorded({"rows": [f"row {n}" for n in range(500_000)]})

    assert isinstance(truncated, dict)
    assert truncated["at_least"] is True
    assert truncated["original_bytes"] > LIMIT


def test_a_text_that_capture_had_shortened_still_states_its_true_length() -> None:
    copy, _ = capture_fields({"text": "x" * 3_000_000}, FULL, SecretNames())
    again, _ = capture_fields(copy, FULL, SecretNames())

    fitted, _ = clean_payload(again, LIMIT)

    assert str(fitted["text"]).endswith("x…[shortened, 3000000 characters]")


def test_rows_that_fit_are_never_cut_by_capture() -> None:
    payload: dict[str, object] = {"rows": [{"id": n, "x": 1} for n in range(17_000)]}

    copy, weight = capture_fields(payload, FULL, SecretNames())
    fitted, text = clean_payload(copy, LIMIT, weight)

    assert stored_size(fitted, text) < LIMIT
    assert fitted == payload
