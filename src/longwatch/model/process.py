"""The identity of a process, and whether it still exists.

A pid is reused after its process has exited, and containers on one host use the same pids. So a process is
identified by machine, boot, pid namespace, pid and start time. Only an observer with the same boot and
namespace, or on the same machine after a reboot, can decide that the process is gone.
"""

from __future__ import annotations

import hmac
import os
import re
import select
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from longwatch.model.event import number_of, text_of

MACHINE_KEY = b"longwatch machine"  # machine ids are confidential, so only their digest is stored
ID_DIGITS = 16
TURN_VARIABLE = "LONGWATCH_TURN_ID"  # in the environment of every process that a turn starts
WRAPPER = "wrapper"
COMMAND = "command"

_DIGEST = re.compile(r"[0-9a-f]{16}")
_ENDED_STATES = frozenset("ZX")  # a zombie, or a process that is being removed


class Presence(StrEnum):
    """The state of a process for an observer."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"  # the observer cannot judge it


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The machine, boot and namespace of an observer, which determine the processes it can judge."""

    machine: str | None = None
    boot: str | None = None
    namespace: str | None = None
    boot_at: int | None = None  # epoch ms
    can_judge: bool = True  # False in Lambda, which freezes its sandbox between calls, and without /proc


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, as in an event."""

    host: str
    pid: int
    started: int | None = None  # clock ticks since boot
    namespace: str | None = None  # pid namespace
    machine: str | None = None  # digest of the machine id
    boot: str | None = None  # boot id
    role: str | None = None  # `wrapper` or `command`, under `longwatch run`
    outbox: str | None = None  # the file of its undelivered events
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self._digest())

    def _digest(self) -> str:
        text = f"{self.machine}\0{self.boot}\0{self.namespace}\0{self.pid}\0{self.started}"
        if self.boot is None:
            text = f"{self.host}\0{text}"
        return sha256(text.encode(errors="replace")).hexdigest()[:ID_DIGITS]

    @classmethod
    def of(cls, value: object) -> ProcessIdentity | None:
        """The process in an event's `process` field; None for any other value."""
        if not isinstance(value, Mapping):
            return None
        host, pid = text_of(value, "host"), number_of(value, "pid")
        if host is None or pid is None or pid < 1:
            return None
        started = number_of(value, "started")
        return cls(
            host=host,
            pid=int(pid),
            started=None if started is None else int(started),
            namespace=text_of(value, "namespace"),
            machine=text_of(value, "machine"),
            boot=text_of(value, "boot"),
            role=text_of(value, "role"),
            outbox=text_of(value, "outbox"),
            id=_given_id(value) or _plain_id(value),
        )

    @property
    def fields(self) -> dict[str, object]:
        """The `process` field of an event, without unknown values."""
        fields: dict[str, object] = {"id": self.id, "host": self.host, "pid": self.pid}
        for name in ("started", "namespace", "machine", "boot", "role", "outbox"):
            value = getattr(self, name)
            if value is not None:
                fields[name] = value
        return fields

    def is_judgeable(self, here: Surroundings) -> bool:
        """Whether an observer in these surroundings can decide if the process is gone."""
        if not here.can_judge or here.boot is None or self.boot is None:
            return False
        if self.namespace is None or self.namespace != here.namespace:
            return False
        return self.boot == here.boot or (self.machine is not None and self.machine == here.machine)

    def presence(self, here: Surroundings | None = None) -> Presence:
        """Whether the process is alive or gone, if this observer can judge it."""
        here = here if here is not None else this_surroundings()
        if not self.is_judgeable(here):
            return Presence.UNKNOWN
        if self.is_before_boot(here):
            return Presence.GONE
        return probe(self.pid, self.started)

    def gone_by(self, now_ms: int, here: Surroundings) -> int:
        """The latest possible time of the exit of a process that is gone."""
        if self.is_before_boot(here) and here.boot_at is not None:
            return min(now_ms, here.boot_at)
        return now_ms

    def is_before_boot(self, here: Surroundings) -> bool:
        """Whether the process ran before the last boot of this machine."""
        return self.boot is not None and self.boot != here.boot


def _given_id(value: Mapping[str, object]) -> str | None:
    """The ID from a producer if it is a digest: `worker-1` would be the same for every process."""
    given = text_of(value, "id")
    return given if given is not None and _DIGEST.fullmatch(given) else None


def _plain_id(value: Mapping[str, object]) -> str:
    """An ID for a process without one, which readers can derive without a hash function."""
    texts = [text_of(value, name) or "" for name in ("host", "machine", "boot", "namespace")]
    numbers = [number_of(value, name) for name in ("pid", "started")]
    return "/".join([*texts, *("" if each is None else str(int(each)) for each in numbers)])


def probe(pid: int, started: int | None) -> Presence:
    """Whether a process of this pid namespace that started at this tick still exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Presence.GONE
    except PermissionError:
        pass  # it exists and belongs to another user
    except OverflowError:
        return Presence.UNKNOWN
    found = _stat(pid)
    if found is None:  # hidden by /proc, or exited between the two calls: the next probe decides
        return Presence.UNKNOWN
    state, ticks = found
    if started is not None and ticks != started:
        return Presence.GONE  # the pid belongs to another process now
    return _presence_by_threads(pid) if state in _ENDED_STATES else Presence.ALIVE


def open_pidfd(process: ProcessIdentity) -> int | None:
    """A descriptor that becomes readable when the process exits; None where that is not available.

    The start time is compared after the descriptor is open, so it cannot refer to another process with the
    same pid.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    found = _stat(process.pid)
    if found is None or process.started is None or found[1] != process.started:
        os.close(descriptor)
        return None
    return descriptor


def has_ended(pidfd: int) -> bool:
    """Whether the process behind this descriptor has ended."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))


def this_process(*, role: str | None = None, outbox: str | None = None) -> ProcessIdentity:
    """The current process."""
    return process_of(os.getpid(), role=role, outbox=outbox)


def process_of(pid: int, *, role: str | None = None, outbox: str | None = None) -> ProcessIdentity:
    """A process of this pid namespace."""
    here = this_surroundings()
    return ProcessIdentity(
        host=this_host(),
        pid=pid,
        started=process_started(pid),
        namespace=here.namespace,
        machine=here.machine,
        boot=here.boot,
        role=role,
        outbox=outbox,
    )


@lru_cache(maxsize=1)
def this_surroundings() -> Surroundings:
    """The surroundings of this process."""
    return Surroundings(
        machine=_machine(),
        boot=_text("/proc/sys/kernel/random/boot_id"),
        namespace=this_namespace(),
        boot_at=_boot_at(),
        can_judge=not os.environ.get("AWS_LAMBDA_FUNCTION_NAME") and _has_own_proc(),
    )


def this_host() -> str:
    """The name of this machine."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def this_namespace() -> str | None:
    """The pid namespace of this process; None where there is only one."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - `pid:[4026531836]` is not a path
    except OSError:
        return None


def process_started(pid: int) -> int | None:
    """When a process of this machine started, in clock ticks since boot; None where unavailable."""
    found = _stat(pid)
    return None if found is None else found[1]


@lru_cache(maxsize=1)
def _has_own_proc() -> bool:
    """Whether /proc lists the processes of this pid namespace; `unshare --pid` leaves that of the parent.

    Linux reports the pid of this process in the namespace of /proc and in every one below it, down to
    this process's own.
    """
    if sys.platform != "linux":
        return False
    for line in (_text("/proc/self/status") or "").splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:] == [str(os.getpid())]
    return False


def _machine() -> str | None:
    machine_id = _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")
    if machine_id is None or machine_id == "uninitialized":
        return None
    return hmac.digest(MACHINE_KEY, machine_id.encode(), "sha256").hex()[:ID_DIGITS]


def _boot_at() -> int | None:
    for line in (_text("/proc/stat") or "").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) * 1000
    return None


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(errors="replace").strip() or None
    except OSError:
        return None


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process and its start tick, as Linux reports them."""
    if not _has_own_proc():
        return None
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before the bracket may contain anything
    return fields[0], int(fields[19])


def _presence_by_threads(pid: int) -> Presence:
    """Whether a process whose main thread has ended is alive in another thread."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a path for each thread is slow
    except FileNotFoundError:
        return Presence.GONE
    except OSError:
        return Presence.UNKNOWN
    states = [_state_of_thread(pid, thread) for thread in threads if thread != str(pid)]
    if any(state is not None and state not in _ENDED_STATES for state in states):
        return Presence.ALIVE
    # A thread is unreadable, or just ended and may have started another: the next probe decides.
    return Presence.UNKNOWN if None in states else Presence.GONE


def _state_of_thread(pid: int, thread: str) -> str | None:
    try:
        text = Path(f"/proc/{pid}/task/{thread}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[0]


def find_leftovers(turn_id: str) -> list[int]:
    """The running processes of this machine that the agent of a turn started.

    Only on Linux, and only processes of the same user and pid namespace.
    """
    variable = f"{TURN_VARIABLE}={turn_id}".encode()
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []
    return sorted(pid for pid in pids if pid != os.getpid() and variable in _environment(pid))


def leftover_text(pids: list[int]) -> str:
    """The message about processes that still run; empty without any."""
    if not pids:
        return ""
    listed = ", ".join(str(pid) for pid in pids[:10])
    one = len(pids) == 1
    return f"{'Process' if one else 'Processes'} {listed} of the turn {'is' if one else 'are'} still running."


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # exited, or of another user
        return []


def _clear_caches() -> None:
    """In a forked child, which may be in another pid namespace."""
    this_surroundings.cache_clear()
    _has_own_proc.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_clear_caches)
