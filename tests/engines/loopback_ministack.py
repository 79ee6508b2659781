"""Runs MiniStack, in its own virtual environment, until standard input closes."""

from __future__ import annotations

import os
import runpy
import sys
import threading


def end_with_the_tests() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_the_tests, daemon=True).start()
    runpy.run_module("ministack", run_name="__main__")
