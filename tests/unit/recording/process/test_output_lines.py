"""Bytes from a pipe become lines, however they are cut up on the way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.recording.process.output import LineSplitter, OutputLine


def lines_of(chunks: Sequence[bytes], *, max_line_bytes: int = 1_000_000) -> list[OutputLine]:
    splitter = LineSplitter(max_line_bytes=max_line_bytes)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.flush()]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"\n\n", ["", ""]),
        (b"bar 1\rbar 2\n", ["bar 1\rbar 2"]),
        ("café\n".encode(), ["café"]),
        (b"caf\xe9\n", ["caf\ufffd"]),
        (b"\xff\xfe", ["\ufffd\ufffd"]),
    ],
)
def test_lines_end_at_newlines_and_hold_valid_text(data: bytes, texts: list[str]) -> None:
    assert [line.text for line in lines_of([data])] == texts


def test_a_line_is_held_back_until_it_is_whole() -> None:
    splitter = LineSplitter()

    early = list(splitter.feed(b'{"a":'))
    late = list(splitter.feed(b" 1}\n"))

    assert early == []
    assert late == [OutputLine('{"a": 1}')]


def test_a_line_beyond_the_limit_is_cut_and_marked() -> None:
    lines = lines_of([b"x" * 15 + b"\nnext\n"], max_line_bytes=10)

    assert lines == [OutputLine("x" * 10, left_out=5), OutputLine("next")]
    assert lines[0].shown == "xxxxxxxxxx…[cut, 5 more bytes]"


def test_a_character_that_the_limit_cuts_in_two_is_left_out() -> None:
    assert lines_of(["aé!".encode() + b"\n"], max_line_bytes=2) == [OutputLine("a", left_out=2)]


def test_a_line_of_exactly_the_limit_is_whole_also_with_a_carriage_return() -> None:
    assert lines_of([b"x" * 10 + b"\r\n"], max_line_bytes=10) == [OutputLine("x" * 10)]


@given(
    st.lists(st.sampled_from([b"a", "é".encode(), "😀".encode(), b"\xff", b"\r", b"\n", b"\r\n", b"{"])),
    st.lists(st.integers(min_value=0, max_value=60)),
    st.integers(min_value=1, max_value=12),
)
def test_any_chunking_of_the_bytes_gives_the_same_lines(
    pieces: list[bytes], cuts: list[int], max_line_bytes: int
) -> None:
    data = b"".join(pieces)
    edges = [0, *sorted(cut for cut in cuts if cut <= len(data)), len(data)]
    chunks = [data[start:end] for start, end in pairwise(edges)]

    assert lines_of(chunks, max_line_bytes=max_line_bytes) == lines_of([data], max_line_bytes=max_line_bytes)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")))
def test_whole_lines_come_out_as_they_went_in(text: str) -> None:
    assert lines_of([text.encode() + b"\n"]) == [OutputLine(text)]
