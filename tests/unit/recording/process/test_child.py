"""Reading a pipe to its end, but not for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from longwatch.recording.process.child import DRAIN_SECONDS, PIPE_BYTES, PipeDrain, pump, write_all
from longwatch.testing.clock import FakeClock


class Pipe:
    """Both ends of a pipe."""

    def __init__(self) -> None:
        self.source, self.end = os.pipe()

    def close_end(self) -> None:
        os.close(self.end)

    def close(self) -> None:
        for descriptor in (self.source, self.end):
            with suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def pipes() -> Iterator[tuple[Pipe, Pipe, Pipe]]:
    """The process's output, ours, and the pipe whose end shows that the process is gone."""
    three = (Pipe(), Pipe(), Pipe())
    yield three
    for pipe in three:
        pipe.close()


def test_everything_is_passed_on_and_recorded_until_the_pipe_ends(pipes: tuple[Pipe, Pipe, Pipe]) -> None:
    output, ours, exited = pipes
    chunks: list[bytes] = []
    os.write(output.end, b"one\ntwo")
    output.close_end()

    pump(output.source, ours.end, exited=exited.source, on_chunk=chunks.append, warn=print, clock=FakeClock())

    assert chunks == [b"one\ntwo"]
    assert os.read(ours.source, 100) == b"one\ntwo"


def test_a_pipe_that_others_hold_open_is_left_once_the_process_is_gone(
    pipes: tuple[Pipe, Pipe, Pipe],
) -> None:
    output, _, exited = pipes
    chunks: list[bytes] = []
    clock = FakeClock()
    os.write(output.end, b"last words")
    exited.close_end()

    def on_chunk(chunk: bytes) -> None:
        chunks.append(chunk)
        clock.advance(DRAIN_SECONDS)

    pump(output.source, None, exited=exited.source, on_chunk=on_chunk, warn=print, clock=clock)

    assert chunks == [b"last words"]


def test_a_sink_without_a_reader_ends_the_pumping_and_nothing_read_is_lost(
    pipes: tuple[Pipe, Pipe, Pipe],
) -> None:
    output, ours, exited = pipes
    chunks: list[bytes] = []
    os.write(output.end, b"text")
    os.close(ours.source)

    pump(output.source, ours.end, exited=exited.source, on_chunk=chunks.append, warn=print, clock=FakeClock())

    assert chunks == [b"text"]


def test_a_sink_that_fails_is_reported_and_recording_continues(pipes: tuple[Pipe, Pipe, Pipe]) -> None:
    output, ours, exited = pipes
    chunks: list[bytes] = []
    warnings: list[str] = []
    os.write(output.end, b"text")
    output.close_end()

    # The reading end takes no writes.
    pump(
        output.source,
        ours.source,
        exited=exited.source,
        on_chunk=chunks.append,
        warn=warnings.append,
        clock=FakeClock(),
    )

    assert chunks == [b"text"]
    assert len(warnings) == 1


def test_there_is_no_deadline_while_the_process_runs() -> None:
    drain = PipeDrain(FakeClock())

    assert drain.timeout_ms() is None
    assert not drain.is_complete(10 * PIPE_BYTES)


def test_after_the_end_a_flood_is_read_for_a_while_and_at_least_as_much_as_a_pipe_holds() -> None:
    clock = FakeClock()
    drain = PipeDrain(clock)
    drain.begin()

    early = drain.is_complete(PIPE_BYTES)
    clock.advance(DRAIN_SECONDS)
    late = drain.is_complete(1)

    assert (early, late) == (False, True)
    assert drain.timeout_ms() == 0


def test_a_descriptor_that_does_not_block_gets_everything(pipes: tuple[Pipe, Pipe, Pipe]) -> None:
    pipe = pipes[0]
    os.set_blocking(pipe.end, False)
    data = bytes(range(256)) * 4096
    received = bytearray()

    def read() -> None:
        while len(received) < len(data):
            received.extend(os.read(pipe.source, 65_536))

    reader = threading.Thread(target=read)
    reader.start()
    write_all(pipe.end, data)
    reader.join()

    assert bytes(received) == data
