"""How many connections a server process may hold."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE_SECONDS

SCRIPT = """
import resource
from longwatch.server.http_server import allow_more_connections

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
allow_more_connections()
soft, still = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft > 256, still == hard)
"""


def test_the_limit_of_open_files_is_raised_as_far_as_allowed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )

    assert (result.stdout, result.stderr) == ("True True\n", "")
