"""Runs at the start of every Python process of `longwatch run`, because its directory is on PYTHONPATH.

It attaches longwatch when the program imports an SDK, and imports nothing before that. It removes its own
traces from `sys.path` and `os.environ`, and then runs the sitecustomize that it has taken the place of. Any
Python 3 may run it, with or without longwatch, so it uses no newer syntax.
"""

import os
import sys

HOOK_DIRECTORY = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import

# The modules that attach an adapter, as in longwatch.integrations.attach.
TRIGGERS = frozenset(
    [
        "agents",
        "anthropic",
        "botocore.session",
        "claude_agent_sdk",
        "crewai",
        "google.adk.runners",
        "langchain_core.tracers.context",
        "langgraph.pregel",
        "llama_index.core",
        "mcp",
        "openai",
        "pydantic_ai",
        "smolagents",
        "strands",
    ]
)


class StartUpFinder:
    """Attaches longwatch at the first import of an SDK."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name not in TRIGGERS:
            return None
        if self in sys.meta_path:  # type: ignore[comparison-overlap]
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        try:
            from longwatch.integrations.attach import attach
        except ImportError as error:
            if error.name != "longwatch":  # it is installed for this interpreter, but broken
                sys.stderr.write("longwatch: cannot be loaded, so nothing is recorded: %s\n" % error)  # noqa: UP031
            return None
        attach()
        for finder in sys.meta_path:  # the caller's loop may miss one that was added now
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None  # type: object
            if spec is not None:
                return spec
        return None


def hide() -> None:
    """Remove this directory from `sys.path`, and from the PYTHONPATH that the program sees.

    The variable of the process itself stays: Python processes that the program starts with an unchanged
    environment, such as workers of multiprocessing, inherit it and are recorded too.
    """
    sys.path[:] = [entry for entry in sys.path if entry != HOOK_DIRECTORY]
    sys.path_importer_cache.pop(HOOK_DIRECTORY, None)
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(entry for entry in entries if entry != HOOK_DIRECTORY)
    visible = os.environ._data  # type: ignore[attr-defined] # assigning to os.environ would change the variable
    key = os.environ.encodekey("PYTHONPATH")
    if rest:
        visible[key] = os.environ.encodevalue(rest)
    else:
        visible.pop(key, None)


def chain() -> None:
    """Run the next sitecustomize on the path, which becomes the module of that name."""
    from importlib.machinery import PathFinder

    if PathFinder.find_spec("sitecustomize") is not None:
        own = sys.modules.pop("sitecustomize")
        try:
            import sitecustomize  # type: ignore[import-not-found] # noqa: F401
        finally:
            sys.modules.setdefault("sitecustomize", own)


if __name__ == "sitecustomize":
    hide()
    sys.meta_path.insert(0, StartUpFinder())  # type: ignore[arg-type]
    chain()
