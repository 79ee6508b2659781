"""The house itself: what is installed, what is in the wheel, and what may not be in the tree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
SOURCE = ROOT / "src" / "longwatch"

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Which parts of pyproject.toml each export holds: base, extras, groups. `make requirements` uses the same.
EXPORTS = {
    "demo": ([], ["build"]),
    "dev": (["aws", "otel"], ["dev"]),
    "bench": (["otel"], ["bench"]),
}
INDEX_ADDRESS = re.compile(
    r"index[-_]url|find[-_]links|trusted[-_]host|https?://\S*/simple\b|\"resolved\"\s*:\s*\"[a-z+]+:"
)
MODULES = {"strawberry-graphql": "strawberry"}  # packages whose module has another name


def wanted(extras: list[str], groups: list[str]) -> list[Requirement]:
    """The direct dependencies of these extras and groups, the base included."""
    lines: list[str] = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        lines += PROJECT["project"]["optional-dependencies"][extra]
    queue = list(groups)
    while queue:
        for entry in PROJECT["dependency-groups"][queue.pop()]:
            if isinstance(entry, dict):
                queue.append(entry["include-group"])
            else:
                lines.append(entry)
    return [Requirement(line) for line in lines]


def pinned(name: str) -> dict[str, str]:
    """Name to version in one export. Where Pythons differ, the version for the oldest."""
    text = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for package, version in re.findall(r"^([a-z0-9._-]+)(?:\[.*?\])?==([^\s;]+)", text, re.MULTILINE):
        found.setdefault(package, version)
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_package_of_an_extra_is_imported() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    names = {Requirement(line).name for lines in extras.values() for line in lines}
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))

    modules = {name: MODULES.get(name, re.sub("[-_]", "[._]", name)) for name in names}
    unused = {
        name for name, module in modules.items() if not re.search(rf"\b(?:import|from) {module}\b", code)
    }

    assert unused == {"httptools", "uvloop", "websockets"}  # uvicorn loads these by itself


@pytest.mark.parametrize("export", EXPORTS)
def test_every_direct_dependency_is_pinned_within_its_bounds(export: str) -> None:
    versions = pinned(export)

    outside = [
        f"{required} is pinned to {versions.get(plain(required.name))}"
        for required in wanted(*EXPORTS[export])
        if not required.specifier.contains(versions.get(plain(required.name), "0"))
    ]

    assert outside == []


@pytest.mark.parametrize("path", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_pinned_package_has_hashes(path: Path) -> None:
    entries = re.split(r"\n(?=[a-z0-9])", path.read_text(encoding="utf-8"))

    bare = [entry.split()[0] for entry in entries if "==" in entry and "--hash=sha256:" not in entry]

    assert bare == []


def test_the_demo_and_the_tests_agree_on_every_version() -> None:
    demo, dev = pinned("demo"), pinned("dev")

    assert {name: version for name, version in demo.items() if dev.get(name) != version} == {}


def test_the_base_install_is_click_and_rich() -> None:
    assert [Requirement(line).name for line in PROJECT["project"]["dependencies"]] == ["click", "rich"]


def test_no_package_index_is_named_in_the_tree() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    files = (
        [ROOT / name for name in listed.stdout.splitlines()]
        if listed.returncode == 0
        else [
            path
            for folder in ("requirements", "scripts", "tests/engines")
            for path in (ROOT / folder).iterdir()
        ]
    )

    named = [
        str(path.relative_to(ROOT))
        for path in files
        if path.is_file()
        and path != Path(__file__)
        and INDEX_ADDRESS.search(path.read_text(encoding="utf-8", errors="replace"))
    ]

    assert named == []


def test_requirement_documents_are_named_by_subject() -> None:
    numbered = re.compile(r"\b(?:document|requirement|seed)s? 00\d\b", re.IGNORECASE)
    folders = ("src", "docs", "tests", "benchmarks", "examples", "infrastructure", "scripts", "web/react")
    files = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*.*"))]

    named = [
        str(path.relative_to(ROOT))
        for path in files
        if path.suffix in (".py", ".md", ".js", ".ts", ".tsx", ".yaml", ".json", ".sql", ".css", ".html")
        and "node_modules" not in path.parts
        and path != ROOT / "docs" / "explanation" / "requirements.md"
        and numbered.search(path.read_text(encoding="utf-8"))
    ]

    assert named == []


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")

    packed = set(zipfile.ZipFile(wheel).namelist())

    files = {
        f"longwatch/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files - packed == set()
    assert "longwatch/py.typed" in packed


def test_importing_longwatch_needs_nothing_but_the_standard_library() -> None:
    # -S leaves site-packages out altogether, so a third-party import would fail.
    result = subprocess.run(
        [sys.executable, "-S", "-c", "import longwatch"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )

    assert result.stderr == ""
    assert result.returncode == 0


def test_packages_import_one_way() -> None:
    command = Path(sys.executable).with_name("lint-imports")

    result = subprocess.run([command, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True)

    assert result.returncode == 0, result.stdout
