"""Tells what a captured object raises from what a signal raises while the object is being captured.

Both arrive as an exception out of the object's `__repr__`, `__str__`, `__iter__` or a property. The first
must not reach the observed code, which never called these; the second must. A signal leaves a trace: a
handler written in Python is a frame that holds the frame it interrupted, and Python's own handler of Ctrl-C
raises at an instruction that is no `raise`. What cannot be told apart counts as a signal if it is a
KeyboardInterrupt (such as one raised by an extension module), else as the object's.
"""

from __future__ import annotations

from types import FrameType, TracebackType


def is_from_signal(error: BaseException) -> bool:
    """Whether this came out of a signal handler: Ctrl-C, or a handler that exits."""
    if not isinstance(error, KeyboardInterrupt | SystemExit):
        return False
    last, step = error.__traceback__, error.__traceback__
    while step is not None:
        if _is_signal_handler(step.tb_frame):
            return True
        last, step = step, step.tb_next
    return isinstance(error, KeyboardInterrupt) and not (last is not None and _is_at_raise(last))


def _is_signal_handler(frame: FrameType) -> bool:
    interrupted = frame.f_back
    if interrupted is None:
        return False
    values = list(frame.f_locals.values())
    values += [part for value in values if type(value) is tuple for part in value]  # `lambda *_: …`
    return any(value is interrupted for value in values)


def _is_at_raise(step: TracebackType) -> bool:
    from opcode import opmap  # loaded only where an object misbehaves

    return step.tb_frame.f_code.co_code[step.tb_lasti] == opmap["RAISE_VARARGS"]
