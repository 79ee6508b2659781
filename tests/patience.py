"""How long a test waits for what should come at once."""

from __future__ import annotations

# What has not come by then never comes. Far more than any test needs, so that none fails on a loaded machine,
# and less than the time that a test has (`timeout` in pyproject.toml).
PATIENCE_SECONDS = 120.0
