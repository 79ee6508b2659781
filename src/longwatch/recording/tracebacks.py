"""The traceback of a failed call as text: bounded, and without the values of variables.

It is made where the call fails, because an exception that waits for the writer would keep its frames, and
everything in them, alive. Only failing calls load this module.
"""

from __future__ import annotations

import linecache
import os
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from longwatch.recording.capture import encodable, error_text, redact_text, truncate_text

MOST_FRAMES = 20  # of one exception: the innermost ones
MOST_CHARACTERS = 4_000
MOST_EXCEPTIONS = 3  # the exception and those that led to it
PART_CHARACTERS = 200  # of a path, a name, a source line and a message

_RECORDED = "_longwatch_traceback_recorded"  # an attribute of exceptions
_HEADING = "Traceback (most recent call last):"
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_GROUP = "The above exception is the first of the following group:"
_PACKAGE = Path(__file__).parents[1]
_WRAPPERS = tuple(f"{_PACKAGE / name}{os.sep}" for name in ("recording", "integrations"))
_STANDARD_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def error_traceback(error: BaseException) -> str | None:
    """The traceback of an exception when it leaves the first call; None when it leaves others. Never raises.

    A call that only passes an exception on does not repeat the traceback of the call inside it. There is none
    for cancellations and exits, which are not failures of the code that they leave.
    """
    if not isinstance(error, Exception):
        return None
    try:
        if _RECORDED in error.__dict__:
            return None
        error.__dict__[_RECORDED] = True
        return _text(_chain(error))
    except Exception:  # noqa: BLE001 - the end of the call is recorded all the same
        return None


def _chain(error: BaseException) -> list[tuple[BaseException, str]]:
    """The exception and what led to it, newest first, each with the sentence after the one before it."""
    chain = [(error, "")]
    while len(chain) < MOST_EXCEPTIONS:
        newer = chain[-1][0]
        if isinstance(newer, BaseExceptionGroup):
            older, sentence = newer.exceptions[0], _GROUP
        elif newer.__cause__ is not None:
            older, sentence = newer.__cause__, _CAUSE
        elif newer.__context__ is not None and not newer.__suppress_context__:
            older, sentence = newer.__context__, _CONTEXT
        else:
            break
        if _RECORDED in older.__dict__:  # with the call that it left
            break
        chain.append((older, sentence))
    return chain


def _text(chain: Sequence[tuple[BaseException, str]]) -> str | None:
    """The chain as Python prints it, with as many frames as there is room for; None without any frame."""
    frames = {id(error): _frames(error.__traceback__) for error, _ in chain}
    if not any(kept for kept, _ in frames.values()):
        return None
    shorter = (_joined(chain, frames, most) for most in (MOST_FRAMES, MOST_FRAMES // 2, MOST_FRAMES // 4, 2))
    fitting = (text for text in shorter if len(text) <= MOST_CHARACTERS)
    return encodable(next(fitting, None) or _joined(chain, frames, 1))


def _joined(
    chain: Sequence[tuple[BaseException, str]], frames: Mapping[int, tuple[list[str], int]], most: int
) -> str:
    parts: list[str] = []
    for error, sentence in reversed(chain):
        kept, left_out = frames[id(error)]
        left_out += max(0, len(kept) - most)
        omission = [f"  … {left_out} outer frame{'' if left_out == 1 else 's'} left out"] if left_out else []
        heading = [_HEADING, *omission, *kept[-most:]] if kept else []
        parts.append("\n".join([*heading, _part(error_text(error))]))
        if sentence:
            parts.append(sentence)
    return "\n\n".join(parts)


def _frames(step: TracebackType | None) -> tuple[list[str], int]:
    """The innermost frames of the program as text, and how many outer ones are left out."""
    steps: deque[TracebackType] = deque(maxlen=MOST_FRAMES)
    found = 0
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(_WRAPPERS):
            steps.append(step)
            found += 1
        step = step.tb_next
    return [_frame_text(each) for each in steps], found - len(steps)


def _frame_text(step: TracebackType) -> str:
    code = step.tb_frame.f_code
    path = code.co_filename
    shown = path if len(path) <= PART_CHARACTERS else f"…{path[-PART_CHARACTERS:]}"
    place = f'  File "{shown}", line {step.tb_lineno}, in {_part(code.co_qualname)}'
    if path.startswith(_STANDARD_LIBRARY) or any(each in path for each in _INSTALLED):
        return place  # the source of libraries is public, and takes the room of the program's own
    source = linecache.getline(path, step.tb_lineno, step.tb_frame.f_globals).strip()
    return f"{place}\n    {_part(source)}" if source else place


def _part(text: str) -> str:
    return text if len(text) <= PART_CHARACTERS else truncate_text(redact_text(text), PART_CHARACTERS)
