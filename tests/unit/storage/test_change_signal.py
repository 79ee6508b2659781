"""Subscribers of this process learn of its writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longwatch.storage.change_signal import LocalSignal, local_signal


def test_every_subscriber_is_notified_until_it_closes() -> None:
    signal, calls = LocalSignal(), list[str]()
    first = signal.subscribe(lambda: calls.append("first"))
    signal.subscribe(lambda: calls.append("second"))

    signal.notify()
    first.close()
    first.close()
    signal.notify()

    assert calls == ["first", "second", "second"]


def test_a_subscriber_may_close_while_it_is_notified() -> None:
    signal, calls = LocalSignal(), list[str]()

    def on_change() -> None:
        calls.append("once")
        subscription.close()

    subscription = signal.subscribe(on_change)
    signal.notify()
    signal.notify()

    assert calls == ["once"]


def test_only_a_store_that_other_processes_write_to_has_to_be_polled() -> None:
    local, shared = LocalSignal().subscribe(id), LocalSignal(check_seconds=1.0).subscribe(id)  # type: ignore[arg-type]

    assert (local.check_seconds, local.changed()) == (None, False)
    assert (shared.check_seconds, shared.changed()) == (1.0, True)


def test_a_file_has_one_signal_in_a_process(tmp_path: Path) -> None:
    calls: list[str] = []
    subscription = local_signal(tmp_path / "one.db").subscribe(lambda: calls.append("one"))

    local_signal(tmp_path / "one.db").notify()
    local_signal(tmp_path / "other.db").notify()

    assert calls == ["one"]
    subscription.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_call_the_subscribers_of_its_parent(tmp_path: Path) -> None:
    signal, calls = local_signal(tmp_path / "one.db"), list[str]()
    subscription = signal.subscribe(lambda: calls.append("parent"))

    child = os.fork()
    if child == 0:
        try:
            signal.notify()
            own = signal.subscribe(lambda: calls.append("child"))
            signal.notify()
            own.close()
            os._exit(0 if calls == ["child"] else 3)
        finally:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    signal.notify()

    assert (status, calls) == (0, ["parent"])
    subscription.close()
