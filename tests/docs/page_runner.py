"""Runs the blocks of a page as a reader would: in order, in one folder of a checkout, longwatch installed.

- `python`: run, all of a page in one interpreter. If the first line is `# name.py` it is saved under that
  name instead, for a command to run.
- `output`: what the Python block before it prints.
- `console`: lines that begin with `$ ` are run in a shell (`> ` continues one), the others are what they
  print. A command that ends in `# exits 1` must end with that code, every other one with 0. `export` holds
  for the rest of the page. A command that ends in `&` runs until `kill %1`; the lines below it are the first
  that it prints.
- `tsx`: checked by `tests/web/test_docs.py`.
- `toml`: must be settings that longwatch accepts; saved if the first line is `# longwatch.toml`.

What is printed is compared loosely: ids, times, sizes and bars may differ. `…` stands for anything, on a
line of its own for any number of lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from longwatch.settings import load_settings
from tests.docs.pages import ROOT, Block, Page
from tests.patience import PATIENCE_SECONDS

LANGUAGES = frozenset({"python", "output", "console", "toml", "json", "text", "yaml", "sh", "tsx"})
ALWAYS_MARKED = frozenset({"sh"})  # never run, so each has to state why

_WORKER = """
import contextlib, io, json, sys, traceback
namespace = {"__name__": "__main__"}
for line in sys.stdin:
    asked = json.loads(line)
    printed, failed = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile("\\n" * (asked["line"] - 1) + asked["code"], asked["page"], "exec"), namespace)
    except BaseException:
        failed = traceback.format_exc()
    print(json.dumps({"printed": printed.getvalue(), "failed": failed}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Command:
    """One line typed into a shell, and the output that the page shows."""

    text: str
    exit_code: int
    expected: list[str]


class Reader:
    """Types in a page from top to bottom, as a reader would."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LONGWATCH_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "HOME": str(folder),
            "LONGWATCH_DATA": str(folder / "data"),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TZ": "UTC",
            "PYTHONWARNINGS": "error",
        }
        self._worker: subprocess.Popen[str] | None = None
        self._background: subprocess.Popen[str] | None = None
        self._printed = ""
        for name in ("examples", "infrastructure", "benchmarks"):
            (folder / name).symlink_to(ROOT / name)

    def read(self, page: Page) -> None:
        """Run every block of the page that is not marked otherwise."""
        for block in page.blocks():
            assert block.language in LANGUAGES, f"{block.where}: unknown language {block.language!r}"
            if block.not_run is None:
                self._run(block)

    def _run(self, block: Block) -> None:
        first = block.text.partition("\n")[0]
        match block.language:
            case "python" if named := re.fullmatch(r"# (\S+\.py)", first):
                (self._folder / named[1]).write_text(block.text, encoding="utf-8")
            case "python":
                self._printed = self._execute(block)
            case "output":
                assert_printed(block.where, block.text.splitlines(), self._printed)
            case "toml":
                self._check_settings(block, keep=first == "# longwatch.toml")
            case "console":
                for command in commands(block):
                    self._type(block, command)
            case "sh":
                raise AssertionError(f"{block.where}: say above the block why it is not run")

    def _execute(self, block: Block) -> str:
        if self._worker is None:
            self._worker = subprocess.Popen(
                [sys.executable, "-u", "-c", _WORKER],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        request = {"page": block.page, "line": block.line, "code": block.text}
        self._worker.stdin.write(json.dumps(request) + "\n")
        self._worker.stdin.flush()
        line = self._worker.stdout.readline()
        assert line, f"{block.where}: the interpreter ended"
        answer = json.loads(line)
        assert answer["failed"] is None, f"{block.where}:\n{answer['failed']}"
        return str(answer["printed"])

    def _type(self, block: Block, command: Command) -> None:
        if exported := re.fullmatch(r"export (\w+)=(\S*)", command.text):
            self._environment[exported[1]] = exported[2]
            return
        if command.text.endswith(" &"):
            self._start(block, command)
            return
        if command.text == "kill %1":
            self._end_background()
            return
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        context = f"{block.where}: $ {command.text}\n{done.stdout}"
        assert done.returncode == command.exit_code, f"{context}\nexit code {done.returncode}"
        if command.expected:
            assert_printed(f"{block.where}: $ {command.text}", command.expected, done.stdout)

    def _start(self, block: Block, command: Command) -> None:
        assert self._background is None, f"{block.where}: a second job in the background"
        self._background = subprocess.Popen(
            ["bash", "-c", f"exec {command.text.removesuffix(' &')}"],
            cwd=self._folder,
            env=self._environment | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._background.stdout is not None
        printed = "".join(self._background.stdout.readline() for _ in command.expected)
        assert_printed(f"{block.where}: $ {command.text}", command.expected, printed)

    def _end_background(self) -> None:
        assert self._background is not None, "no job runs in the background"
        self._background.terminate()
        self._background.communicate(timeout=PATIENCE_SECONDS)
        self._background = None

    def _check_settings(self, block: Block, *, keep: bool) -> None:
        folder = self._folder if keep else self._folder / f"toml-{block.line}"
        folder.mkdir(exist_ok=True)
        (folder / "longwatch.toml").write_text(block.text, encoding="utf-8")
        load_settings(directory=folder, environment={"LONGWATCH_DATA": str(folder)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._background is not None:
            self._end_background()
        if self._worker is None:
            return
        stderr = self._worker.communicate(timeout=PATIENCE_SECONDS)[1]
        assert kind is not None or self._worker.returncode == 0, stderr


def commands(block: Block) -> Iterator[Command]:
    """What a console block types and expects."""
    typed: str | None = None
    expected: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if typed is not None:
                yield _command(typed, expected)
            typed, expected = line[2:], []
        elif line.startswith("> ") and typed is not None and not expected:
            typed = f"{typed}\n{line[2:]}"
        else:
            assert typed is not None, f"{block.where}: a console block begins with `$ `"
            expected.append(line)
    assert typed is not None, f"{block.where}: a console block without a command"
    yield _command(typed, expected)


def _command(typed: str, expected: list[str]) -> Command:
    code = re.search(r"\s+# exits (\d+)$", typed)
    text = typed[: code.start()] if code else typed
    while expected and not expected[-1].strip():
        expected.pop()
    return Command(text, int(code[1]) if code else 0, expected)


def assert_printed(where: str, expected: list[str], printed: str) -> None:
    """Whether these lines were printed, as far as a page can know them."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else _pattern(line) + r"\n" for line in expected if line.strip()
    )
    actual = "".join(f"{loose(line)}\n" for line in printed.splitlines() if line.strip())
    shown = "\n".join(expected)
    assert re.fullmatch(pattern, actual), f"{where}\nthe page says:\n{shown}\nand it printed:\n{printed}"


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r" ?… ?", loose(line)))


def loose(line: str) -> str:
    """The line without what differs from run to run and from machine to machine."""
    for pattern, word in (
        (r"(just now|in \d+ s|\d+ s ago)", "AGO"),
        (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
        (r"<?\b\d+(\.\d+)? (ms|s)\b", "LENGTH"),
        (r"\b\d+(\.\d+)? (bytes|KB|MB)\b", "SIZE"),
        (r"\bwf-[0-9a-f]{4,12}(…|\b)", "RUN"),
        (r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b", "HEX"),
        (r"\b\d{13}\b", "MS"),
        (r"(#|\(try )\d+\b\)?", "TRY"),
        (r"[━╸╺▏▎▍▌▋▊▉█▐▕]+", ""),
        (r"\s+", " "),
    ):
        line = re.sub(pattern, word, line)
    return line.strip()
