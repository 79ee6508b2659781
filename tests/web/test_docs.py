"""The React code in the documentation has the types it should have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.docs.pages import all_pages
from tests.web.node import WEB, tool

SECONDS = 120


def test_every_block_of_react_code_in_the_docs_type_checks(tmp_path: Path) -> None:
    compiler = tool("tsc")
    blocks = [block for page in all_pages() for block in page.blocks() if block.language == "tsx"]
    for block in blocks:
        name = block.where.replace("/", "-").replace(":", "-").replace(".", "-")
        (tmp_path / f"{name}.tsx").write_text(block.text, encoding="utf-8")
    settings = {"extends": str(WEB / "tsconfig.apps.json"), "include": ["*.tsx"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")

    done = subprocess.run(
        [*compiler, "--project", str(tmp_path)], cwd=WEB, capture_output=True, text=True, timeout=SECONDS
    )

    assert blocks
    assert done.returncode == 0, done.stdout
