"""Commands: a program gets the message as JSON on stdin. Its time and its output are limited."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import IO

from longwatch.errors import InvalidInput
from longwatch.model.moments import span_ms
from longwatch.notifications.channels.base import (
    Channel,
    ChannelContext,
    ChannelKind,
    DeliveryError,
    DeliveryReceipt,
    Options,
)
from longwatch.notifications.message import Message
from longwatch.recording.redaction import redact_text

DEFAULT_TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 60_000
OUTPUT_BYTES = 2_000  # that are kept of the output, from its end
_READ_BYTES = 4_096


def check(options: Options) -> None:
    """Raises ValueError for options that can never work."""
    command = options.get("command")
    if not isinstance(command, list) or not command or not all(isinstance(each, str) for each in command):
        raise ValueError(f'command must be a list such as ["logger", "-t", "longwatch"], not {command!r}')
    if not command[0] or any("\0" in each for each in command):
        raise ValueError(f"command must begin with a program, not {command!r}")
    timeout_ms(options)


def timeout_ms(options: Options) -> int:
    """How long the command may run. Raises ValueError."""
    value = options.get("timeout")
    if value is None:
        return DEFAULT_TIMEOUT_MS
    try:
        found = span_ms(value) if isinstance(value, str) else 0
    except InvalidInput as error:
        raise ValueError(f"timeout: {error}") from error
    if not 0 < found <= MAX_TIMEOUT_MS:
        raise ValueError(f"timeout must be a duration up to 60s, such as 10s, not {value!r}")
    return found


class CommandChannel:
    """Runs one command for each message, in a process group of its own."""

    def __init__(self, options: Options) -> None:
        command = options["command"]
        self._command = [str(each) for each in command] if isinstance(command, list) else []
        self._seconds = timeout_ms(options) / 1000

    def send(self, message: Message) -> DeliveryReceipt:
        program = self._command[0]
        with tempfile.TemporaryFile() as given:  # a pipe would block if the command does not read
            given.write(message.to_json().encode() + b"\n")
            given.seek(0)
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                problem = f"{program} cannot be started: {error.strerror or error}"
                raise DeliveryError(problem, is_retryable=True) from error
        code, output = self._finish(process)
        if code is None:
            raise DeliveryError(f"{program} did not exit within {self._seconds:g} s", is_retryable=True)
        if code:
            how = f"exited with {code}" if code > 0 else f"was killed by signal {-code}"
            said = f": {output}" if output else ""
            raise DeliveryError(f"{program} {how}{said}", is_retryable=True)
        return DeliveryReceipt("exit 0")

    def _finish(self, process: subprocess.Popen[bytes]) -> tuple[int | None, str]:
        """The exit code, None if it took too long, and the last line of its output."""
        assert process.stdout is not None
        kept = _Tail(process.stdout)
        kept.start()
        code: int | None = None
        try:
            code = process.wait(self._seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(OSError):  # also children that hold the output open
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kept.join(1.0)
            if not kept.is_alive():
                process.stdout.close()
        lines = kept.text().strip().splitlines()
        return code, redact_text(lines[-1][:200]) if lines else ""


class _Tail(threading.Thread):
    """Reads an output to its end and keeps its last bytes."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__(name="longwatch-notify-command", daemon=True)
        self._source = source
        self._kept = b""

    def run(self) -> None:
        with suppress(OSError, ValueError):
            while chunk := os.read(self._source.fileno(), _READ_BYTES):
                self._kept = (self._kept + chunk)[-OUTPUT_BYTES:]

    def text(self) -> str:
        return self._kept.decode(errors="replace")


def _open(options: Options, context: ChannelContext) -> Channel:
    return CommandChannel(options)


KIND = ChannelKind(name="command", options=frozenset({"command", "timeout"}), check=check, open=_open)
