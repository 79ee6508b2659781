"""The modules of the page as one script, and its styles as one sheet.

A browser asks for each module by itself, and fifty small answers take longer than one. So the files are
joined when they are asked for, without a build: each module becomes a function that returns what it exports,
after the functions of the modules it imports, and comments are left out. The files themselves stay plain ES
modules, and are served beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

VIEWER = Path(__file__).parent / "viewer"

_IMPORT = re.compile(
    r'^(?P<word>import|export)\s+(?:(?P<names>\{[^}]*\}|\*\s+as\s+\w+)\s+from\s+)?"(?P<path>[^"]+)";\n', re.M
)
_EXPORT = re.compile(r"^export\s+(?P<said>(?:async\s+)?(?:function\*?|class|const)\s+(?P<name>\w+))", re.M)
_COMMENT = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/\n", re.M | re.S)  # on lines of its own
_NOTHING = re.compile(r"^export \{\};\n", re.M)


def joined_script(entry: str, *, folder: Path = VIEWER) -> str:
    """A module and everything it imports as one script, each after what it needs."""
    names: dict[str, str] = {}
    parts: list[str] = []

    def add(path: str, above: tuple[str, ...]) -> str:
        if path in above:
            raise ValueError(f"{path} imports itself by way of {' and '.join(above[above.index(path) :])}")
        if path not in names:
            module = _read(folder, path)
            bound = [(what, add(source, (*above, path))) for what, source in module.imports]
            names[path] = f"$module{len(names)}"
            parts.append(_function(names[path], module, bound))
        return names[path]

    add(entry, ())
    script = "".join(parts)
    if re.search(r"</script|<!--", script, re.I):
        raise ValueError("a module of the page holds text that would end a script element")
    return script


def joined_style(names: Iterable[str], *, folder: Path = VIEWER) -> str:
    """Style sheets one after the other."""
    return "".join((folder / "style" / f"{name}.css").read_text(encoding="utf-8") for name in names)


@dataclass(frozen=True, slots=True)
class _Module:
    """One module of the page, as the function that it becomes."""

    imports: tuple[tuple[str | None, str], ...]  # what is bound, and from which module
    exports: tuple[str, ...]
    body: str


def _read(folder: Path, path: str) -> _Module:
    source = _NOTHING.sub("", _COMMENT.sub("", (folder / path).read_text(encoding="utf-8")))
    found = list(_IMPORT.finditer(source))
    passed_on = [_names(each["names"]) for each in found if each["word"] == "export" and each["names"]]
    exports = [each["name"] for each in _EXPORT.finditer(source)]
    body = _EXPORT.sub(lambda each: each["said"], _IMPORT.sub("", source))
    left = re.search(r"^(?:import|export)\b.*$", body, re.M)
    if left is not None:
        raise ValueError(f"{path} has a line that cannot be joined: {left[0]}")
    return _Module(
        imports=tuple((each["names"], _beside(path, each["path"])) for each in found),
        exports=(*exports, *(name for names in passed_on for name in names)),
        body=body,
    )


def _names(braces: str) -> list[str]:
    """The names in `{ a, b as c }`, as they are called inside."""
    return [each.split()[-1] for each in braces.strip("{} \n").split(",") if each.strip()]


def _beside(path: str, relative: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / relative).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _function(name: str, module: _Module, bound: list[tuple[str | None, str]]) -> str:
    lines = [f"const {_pattern(what)} = {source};" for what, source in bound if what is not None]
    exports = ", ".join(module.exports)
    return "\n".join(
        (f"const {name} = (() => {{", *lines, f"{module.body}return {{ {exports} }};", "})();", "")
    )


def _pattern(names: str) -> str:
    """`{ a as b }` of an import as `{ a: b }` of a constant; `* as x` as `x`."""
    if names.startswith("*"):
        return names.split()[-1]
    return re.sub(r"(\w+)\s+as\s+(\w+)", r"\1: \2", names)
