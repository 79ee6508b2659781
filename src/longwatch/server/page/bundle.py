"""The modules of the page as one script, and its styles as one sheet.

A browser requests each module separately, and fifty small responses take longer than one. So the server
joins the files, without a build: each module becomes a function that returns its exports, after the functions
of the modules that it imports, without comments. The plain ES modules are served as well.
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
_EXPORT = re.compile(
    r"^export\s+(?P<declaration>(?:async\s+)?(?:function\*?|class|const)\s+(?P<name>\w+))", re.M
)
_COMMENT = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/\n", re.M | re.S)  # on lines of its own
_EMPTY_EXPORT = re.compile(r"^export \{\};\n", re.M)


def bundle_script(entry: str, *, folder: Path = VIEWER) -> str:
    """A module and everything that it imports as one script, each after its imports."""
    names: dict[str, str] = {}
    parts: list[str] = []

    def add(path: str, above: tuple[str, ...]) -> str:
        if path in above:
            raise ValueError(f"{path} imports itself through {' and '.join(above[above.index(path) :])}")
        if path not in names:
            module = _read(folder, path)
            bound = [(what, add(source, (*above, path))) for what, source in module.imports]
            names[path] = f"$module{len(names)}"
            parts.append(_function(names[path], module, bound))
        return names[path]

    add(entry, ())
    script = "".join(parts)
    if re.search(r"</script|<!--", script, re.I):
        raise ValueError("a module of the page has text that would end a script element")
    return script


def bundle_style(names: Iterable[str], *, folder: Path = VIEWER) -> str:
    """The style sheets, concatenated."""
    return "".join((folder / "style" / f"{name}.css").read_text(encoding="utf-8") for name in names)


@dataclass(frozen=True, slots=True)
class _Module:
    """One module of the page."""

    imports: tuple[tuple[str | None, str], ...]  # names, and the module that they are from
    exports: tuple[str, ...]
    body: str


def _read(folder: Path, path: str) -> _Module:
    source = _EMPTY_EXPORT.sub("", _COMMENT.sub("", (folder / path).read_text(encoding="utf-8")))
    found = list(_IMPORT.finditer(source))
    reexported = [_names(each["names"]) for each in found if each["word"] == "export" and each["names"]]
    exports = [each["name"] for each in _EXPORT.finditer(source)]
    body = _EXPORT.sub(lambda each: each["declaration"], _IMPORT.sub("", source))
    left = re.search(r"^(?:import|export)\b.*$", body, re.M)
    if left is not None:
        raise ValueError(f"{path} has a line that cannot be bundled: {left[0]}")
    return _Module(
        imports=tuple((each["names"], _resolve(path, each["path"])) for each in found),
        exports=(*exports, *(name for names in reexported for name in names)),
        body=body,
    )


def _names(braces: str) -> list[str]:
    """The local names in `{ a, b as c }`."""
    return [each.split()[-1] for each in braces.strip("{} \n").split(",") if each.strip()]


def _resolve(path: str, relative: str) -> str:
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
