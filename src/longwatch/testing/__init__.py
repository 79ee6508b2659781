"""What tests of programs that use longwatch need: virtual time, and journals that fail on request."""

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from longwatch.testing.journals import FaultyJournal

__all__ = ["FakeClock", "FaultyJournal", "MemoryJournal"]
