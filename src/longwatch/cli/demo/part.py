"""One part of the demo, played in a thread beside the others."""

from __future__ import annotations

import threading
from collections.abc import Callable

from longwatch.errors import LongwatchError

JOIN_SECONDS = 30.0


class DemoPart:
    """A script that plays in the background and can be stopped. A `pace` below 1 plays it faster."""

    path: str  # of its view on the page
    error: LongwatchError | None = None  # why it was not played to its end

    def __init__(self, play: Callable[[], None], *, pace: float) -> None:
        self._play = play
        self._pace = pace
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"demo-{type(self).__name__}", daemon=True)

    @property
    def is_playing(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop early, and wait until the end is recorded."""
        self._stopped.set()
        self.join()

    def join(self) -> None:
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            self._play()
        except LongwatchError as error:
            self.error = error  # the other parts continue; the command reports it
