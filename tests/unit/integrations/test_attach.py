"""When adapters are attached, with SDKs and adapters that the test writes."""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import longwatch
from longwatch.integrations import attach as attaching
from longwatch.integrations.attach import Adapter, ImportHook, select_adapters
from longwatch.settings import Settings

SDK = Adapter("toys", "toysdk", "toyadapter", "toy-sdk", "2", "3")
PARTS = Adapter("parts", "toysdk.parts", "partadapter", "toy-sdk", "2", "3")
OWN_MODULES = ("toysdk", "toysdk.parts", "toyadapter", "partadapter")


@pytest.fixture
def installed() -> list[str]:
    """The adapters whose `install` was called, with what they saw of their SDK."""
    return []


@pytest.fixture(autouse=True)
def _sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: list[str]) -> Iterator[None]:
    """An SDK on the path, its adapters, and a process that has attached nothing."""
    package = tmp_path / "toysdk"
    package.mkdir()
    (package / "__init__.py").write_text("ready = True\n")
    (package / "parts.py").write_text("ready = True\n")
    set_version(tmp_path, "2.5.1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(attaching, "ADAPTERS", (SDK, PARTS))
    monkeypatch.setattr(attaching, "_attached", set())
    hook = ImportHook()
    monkeypatch.setattr(attaching, "when_imported", hook.add)
    for adapter in (SDK, PARTS):
        seen = f"{adapter.trigger} ready"
        install = lambda trigger=adapter.trigger, seen=seen: installed.append(  # noqa: E731
            seen if sys.modules[trigger].ready else "too early"
        )
        monkeypatch.setitem(sys.modules, adapter.module, SimpleNamespace(install=install))
    yield
    for name in OWN_MODULES:
        sys.modules.pop(name, None)
    if hook in sys.meta_path:
        sys.meta_path.remove(hook)


def set_version(folder: Path, version: str) -> None:
    for old in folder.glob("*.dist-info/METADATA"):
        old.unlink()
        old.parent.rmdir()
    information = folder / f"toy_sdk-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toy-sdk\nVersion: {version}\n")
    importlib.invalidate_caches()


def hooks() -> list[object]:
    return [finder for finder in sys.meta_path if isinstance(finder, ImportHook)]


def test_an_adapter_is_attached_when_its_sdk_has_been_imported(installed: list[str]) -> None:
    longwatch.attach()
    before = list(installed)
    importlib.import_module("toysdk")

    assert before == []
    assert installed == ["toysdk ready"]


def test_an_sdk_that_is_imported_already_is_attached_at_once(installed: list[str]) -> None:
    importlib.import_module("toysdk")

    longwatch.attach()

    assert installed == ["toysdk ready"]


def test_a_submodule_may_be_what_attaches_an_adapter(installed: list[str]) -> None:
    longwatch.attach("parts")

    importlib.import_module("toysdk.parts")

    assert installed == ["toysdk.parts ready"]


def test_attaching_again_installs_nothing_twice(installed: list[str]) -> None:
    longwatch.attach()
    longwatch.attach("toys")
    importlib.import_module("toysdk")
    longwatch.attach()

    assert installed == ["toysdk ready"]


def test_the_import_hook_leaves_no_trace_when_nothing_is_left_to_attach() -> None:
    longwatch.attach("toys")
    assert len(hooks()) == 1

    module = importlib.import_module("toysdk")

    assert hooks() == []
    assert module.__spec__ is not None
    assert "exec_module" not in vars(module.__spec__.loader)


def test_threads_that_import_an_sdk_together_attach_it_once(installed: list[str]) -> None:
    longwatch.attach()
    barrier = threading.Barrier(8)

    def use() -> None:
        barrier.wait()
        importlib.import_module("toysdk")

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert installed == ["toysdk ready"]


def test_an_sdk_in_an_archive_is_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: list[str]
) -> None:
    for file in ("parts.py", "__init__.py"):
        (tmp_path / "toysdk" / file).unlink()
    (tmp_path / "toysdk").rmdir()
    with zipfile.ZipFile(tmp_path / "sdk.zip", "w") as archive:
        archive.writestr("toysdk/__init__.py", "ready = True\n")
        archive.writestr("toysdk/parts.py", "ready = True\n")
    monkeypatch.syspath_prepend(tmp_path / "sdk.zip")
    longwatch.attach()

    importlib.import_module("toysdk.parts")

    assert installed == ["toysdk ready", "toysdk.parts ready"]


@pytest.mark.parametrize("version", ["1.9.9", "3.0.0", "3.0.0b1", "10.0"])
def test_a_version_outside_the_tested_range_is_left_alone_with_one_warning(
    version: str, tmp_path: Path, installed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    set_version(tmp_path, version)
    longwatch.attach("toys")
    longwatch.attach("toys")

    importlib.import_module("toysdk")

    assert installed == []
    (message,) = caplog.messages
    reason = "because the tested versions are 2 up to, not including, 3"
    assert message == f"longwatch: toy-sdk {version} is not recorded, {reason}"


@pytest.mark.parametrize("version", ["2", "2.0.0", "2.99.1.post1", "2.1rc1"])
def test_versions_in_the_tested_range(version: str) -> None:
    assert SDK.covers(version)


def test_a_module_of_the_same_name_that_is_not_the_sdk_is_left_alone(
    installed: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for information in tmp_path.glob("*.dist-info/METADATA"):
        information.unlink()
    longwatch.attach()

    importlib.import_module(SDK.trigger)

    assert (installed, caplog.records) == ([], [])


def test_an_adapter_that_fails_does_not_break_the_import(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "toyadapter", SimpleNamespace())  # it has no `install`
    longwatch.attach()

    module = importlib.import_module("toysdk")

    assert module.ready
    assert caplog.messages == ["longwatch: cannot attach to an SDK, so it is not recorded"]


def test_an_sdk_whose_import_fails_is_attached_by_the_next_import(
    tmp_path: Path, installed: list[str]
) -> None:
    source = tmp_path / "toysdk" / "__init__.py"
    source.write_text("raise ImportError('broken')\n")
    longwatch.attach()

    with pytest.raises(ImportError, match="broken"):
        importlib.import_module("toysdk")
    source.write_text("ready = True  # and longer than before\n")
    importlib.import_module("toysdk")

    assert installed == ["toysdk ready"]


def test_an_sdk_that_is_not_installed_is_still_missing() -> None:
    hook = ImportHook()
    hook.add("missingsdk", lambda: None)

    with pytest.raises(ModuleNotFoundError, match="missingsdk"):
        importlib.import_module("missingsdk")
    sys.meta_path.remove(hook)


SETTINGS = Settings(journal="memory://")


@pytest.mark.parametrize(
    ("names", "setting", "chosen"),
    [
        ((), ("all",), [SDK, PARTS]),
        ((), ("parts",), [PARTS]),
        ((), ("none",), []),
        (("toys",), ("parts",), [SDK]),
        (("toys",), ("none",), []),
        (("all",), ("parts",), [SDK, PARTS]),
    ],
)
def test_the_caller_or_the_setting_selects(
    names: tuple[str, ...], setting: tuple[str, ...], chosen: list[Adapter]
) -> None:
    assert select_adapters(names, replace(SETTINGS, attach=setting)) == chosen


def test_nothing_is_attached_while_recording_is_disabled() -> None:
    assert select_adapters(("toys",), replace(SETTINGS, enabled=False)) == []


def test_an_unknown_sdk_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert select_adapters(("toys", "tois"), SETTINGS) == [SDK]
    assert caplog.messages == [
        "longwatch: cannot attach to unknown SDKs: tois. Use all, none or: toys, parts"
    ]


def test_invalid_settings_do_not_reach_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LONGWATCH_CAPTURE", "everything")
    with caplog.at_level(logging.DEBUG, "longwatch"):
        longwatch.attach()

    assert hooks() == []
    assert "could not be recorded" in caplog.text
