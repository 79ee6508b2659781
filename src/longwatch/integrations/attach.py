"""`longwatch.attach()` records agent SDKs without changes to the code that uses them.

Each SDK has an adapter: one module of this package with a function `install()`. An adapter is imported when
the program imports the SDK, or at once if it already has. Versions outside the tested range are left alone,
because an adapter relies on details that a major release may change.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from longwatch.recording.calls import report_fault
from longwatch.settings import Settings, load_settings
from longwatch.settings_catalog import ALL_SDKS, NO_SDKS

log = logging.getLogger("longwatch")


@dataclass(frozen=True, slots=True)
class Adapter:
    """An SDK that longwatch can record."""

    name: str  # in `attach()` and in the setting
    trigger: str  # the module whose import attaches the adapter
    module: str  # the adapter, in this package
    distribution: str
    first_tested: str
    first_untested: str

    def covers(self, version: str) -> bool:
        """Whether this version is in the tested range."""
        return _release(self.first_tested) <= _release(version) < _release(self.first_untested)


def _adapter(name: str, trigger: str, distribution: str, first_tested: str, first_untested: str) -> Adapter:
    module = f"longwatch.integrations.{name}"
    return Adapter(name, trigger, module, distribution, first_tested, first_untested)


# The start-up hook names the same triggers: see startup_hook/sitecustomize.py.
ADAPTERS: tuple[Adapter, ...] = (
    _adapter("openai", "openai", "openai", "3.49", "4"),
    _adapter("anthropic", "anthropic", "anthropic", "2.8", "3"),
    _adapter("bedrock", "botocore.session", "botocore", "1.43", "2"),
    _adapter("langchain", "langchain_core.tracers.context", "langchain-core", "1.7", "2"),
    _adapter("langgraph", "langgraph.pregel", "langgraph", "1.2", "2"),
    _adapter("mcp", "mcp", "mcp", "2.3", "3"),
    _adapter("openai_agents", "agents", "openai-agents", "0.24", "0.25"),
    _adapter("pydantic_ai", "pydantic_ai", "pydantic-ai-slim", "2.66", "3"),
    _adapter("claude_agent", "claude_agent_sdk", "claude-agent-sdk", "0.2.182", "0.3"),
    _adapter("crewai", "crewai", "crewai", "1.15", "1.16"),
    _adapter("google_adk", "google.adk.runners", "google-adk", "2.13", "3"),
    _adapter("llama_index", "llama_index.core", "llama-index-core", "0.14", "0.15"),
    _adapter("smolagents", "smolagents", "smolagents", "1.26", "2"),
    _adapter("strands", "strands", "strands-agents", "1.62", "2"),
)

_attached: set[Adapter] = set()  # by this process, whether their SDKs have been imported or not
installed: set[str] = set()  # the names of those that record
attached_late: set[str] = set()  # of those whose SDK the program may have used before


def attach(*names: str) -> None:
    """Record these SDKs from now on; without names, those that the setting `recording.attach` selects.

    Never raises. Does nothing if recording is disabled or the setting is `none`.
    """
    try:
        for adapter in select_adapters(names, load_settings()):
            if adapter not in _attached:
                _attached.add(adapter)
                if adapter.trigger in sys.modules:
                    attached_late.add(adapter.name)
                when_imported(adapter.trigger, partial(_install, adapter))
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)


def select_adapters(names: Sequence[str], settings: Settings) -> list[Adapter]:
    """The adapters that the caller or the setting names. Unknown names are reported in the log."""
    if not settings.enabled or NO_SDKS in settings.attach:
        return []
    chosen = set(names or settings.attach)
    unknown = sorted(chosen - {ALL_SDKS} - {adapter.name for adapter in ADAPTERS})
    if unknown:
        log.warning(
            "longwatch: cannot attach to unknown SDKs: %s. Use all, none or: %s",
            ", ".join(unknown),
            ", ".join(adapter.name for adapter in ADAPTERS),
        )
    return [adapter for adapter in ADAPTERS if ALL_SDKS in chosen or adapter.name in chosen]


def _install(adapter: Adapter) -> None:
    version = _installed_version(adapter)
    if version is None:  # another package has a module of this name, such as the program's own `agents`
        return
    if not adapter.covers(version):
        log.warning(
            "longwatch: %s %s is not recorded, because the tested versions are %s up to, not including, %s",
            adapter.distribution,
            version,
            adapter.first_tested,
            adapter.first_untested,
        )
        return
    import_module(adapter.module).install()
    installed.add(adapter.name)


def _installed_version(adapter: Adapter) -> str | None:
    """The version of the SDK; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(adapter.distribution)
    except PackageNotFoundError:
        return None


def _release(version: str) -> tuple[int, ...]:
    """The numbers at the start of a version, without trailing zeros: 4.0.0b1 counts as 4."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


Callback = Callable[[], None]


class ImportHook:
    """A finder that calls back when modules have been imported; on `sys.meta_path` only while it waits."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: dict[str, list[Callback]] = {}

    def add(self, module: str, callback: Callback) -> None:
        """Call back once, after the module has been imported; at once if it has been already."""
        with self._lock:
            if module not in sys.modules:
                self._waiting.setdefault(module, []).append(callback)
                if self not in sys.meta_path:
                    sys.meta_path.insert(0, self)
                return
        _call(callback)

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec that the other finders find, with a loader that calls back."""
        if name not in self._waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                self._wrap(spec)
                return spec
        return None

    def _wrap(self, spec: ModuleSpec) -> None:
        """Wrap `exec_module` of this loader until it has run: the loader itself stays the program's own."""
        loader: Any = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None:  # a namespace package
            return

        def exec_module(module: ModuleType) -> None:
            if module.__name__ != spec.name:  # a loader may be shared by the modules of an archive
                return execute(module)  # type: ignore[no-any-return]
            loader.__dict__.pop("exec_module", None)
            execute(module)
            return self._notify(spec.name)

        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError) as error:  # a loader that is built in
            report_fault(error)

    def _notify(self, name: str) -> None:
        with self._lock:
            callbacks = self._waiting.pop(name, [])
            if not self._waiting and self in sys.meta_path:
                sys.meta_path.remove(self)
        for callback in callbacks:
            _call(callback)


def _call(callback: Callback) -> None:
    try:
        callback()
    except Exception as error:  # the import of the SDK must succeed all the same
        log.warning("longwatch: cannot attach to an SDK, so it is not recorded", exc_info=error)


_hook = ImportHook()
when_imported = _hook.add
