"""What a call of the command line was given besides its command, and the settings that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from longwatch.settings import Settings


@dataclass(slots=True)
class Invocation:
    """Options that every command shares. They may stand before or after the command's name."""

    journal: str | None = None
    debug: bool = False
    clock: Clock = field(default=SYSTEM_CLOCK)

    def settings(self) -> Settings:
        """The settings that hold here, with the journal from the command line if one was given."""
        from longwatch.settings import absolute_journal, load_settings

        settings = load_settings()
        if self.journal is None:
            return settings
        origins = {**settings.origins, "journal": "--journal"}
        return replace(settings, journal=absolute_journal(self.journal, Path.cwd()), origins=origins)
