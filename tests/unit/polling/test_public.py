"""The public names: there, in the reference, and cheap for those who need only values."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from longwatch import polling
from tests.docs.pages import page


@pytest.mark.parametrize("name", polling.__all__)
def test_a_public_name_is_there_and_in_the_reference(name: str) -> None:
    documented = page("reference/polling.md").code_spans()

    assert getattr(polling, name) is not None
    assert any(re.match(rf"{name}\b", span) for span in documented)
    assert name in dir(polling)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'longwatch\.polling' has no attribute 'nothing'"):
        polling.nothing  # noqa: B018


def test_values_do_not_load_asyncio() -> None:
    code = (
        "import sys; from longwatch.polling import EXECUTION_PHASES, Cadence, DueQueue; "
        "sys.exit('asyncio' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-S", "-c", code], env={"PYTHONPATH": ":".join(sys.path)})

    assert done.returncode == 0
