"""scripts/package_stats: sizes, imports and duplicate class names of a small tree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "package_stats"

FILES = {
    "__init__.py": "",
    "errors.py": "class Problem(Exception): ...\n",
    "store/__init__.py": "from shop.errors import Problem\n",
    "store/shelf.py": "class Answer:\n    def ask(self):\n        return 1\n",
    "web/asking.py": (
        "from typing import TYPE_CHECKING\n"
        "from shop.store.shelf import Answer as Stored\n"
        "if TYPE_CHECKING:\n"
        "    from shop.errors import Problem\n"
        "class Answer(Stored): ...\n"
        "def later():\n"
        "    import shop.store\n"
    ),
    "web/page.js": "export const one = 1;\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "shop"


def printed(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_json_has_sizes_imports_and_duplicate_class_names(shop: Path) -> None:
    numbers = json.loads(printed("--json", shop))

    assert numbers["packages"] == {
        "(top level)": {"files": 2, "lines": 1},
        "store": {"files": 2, "lines": 4},
        "web": {"files": 1, "lines": 7},
    }
    assert numbers["imports"] == {"store": {"(top level)": 1}, "web": {"store": 1}}
    assert numbers["duplicate_classes"] == {"Answer": ["shop.store.shelf", "shop.web.asking"]}
    assert numbers["javascript"] == {"files": 1, "lines": 1}
    assert numbers["totals"] == {
        "files": 5,
        "lines": 12,
        "functions": 2,
        "classes": 3,
        "class names in two or more modules": 1,
        "file names in -ing": 1,
    }


def test_the_longest_files_and_functions_come_first(shop: Path) -> None:
    numbers = json.loads(printed("--json", "--longest", "1", shop))

    assert numbers["longest_files"] == [[7, "shop/web/asking.py"]]
    assert numbers["longest_functions"] == [[2, "shop/store/shelf.py:2 ask"]]


def test_the_report_names_packages_and_totals(shop: Path) -> None:
    lines = printed(shop).splitlines()

    assert "store                 2        4  (top level) 1" in lines
    assert "  2  Answer: shop.store.shelf, shop.web.asking" in lines
    assert "     12  lines" in lines


def test_a_directory_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / "none"], capture_output=True, text=True)

    assert done.returncode == 1
    assert "is not a directory" in done.stderr
