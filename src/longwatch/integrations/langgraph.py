"""Records LangGraph: each call of a graph, its structure, and interrupts as waits for a human.

The callbacks of `langchain.py` report nodes, tools and models. They do not have the graph itself, so
`stream` and `astream`, which every way to call a graph goes through, are wrapped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.pregel import Pregel
from langgraph.types import Command

from longwatch.integrations import langchain
from longwatch.integrations.langchain import STARTING_GRAPH, handler, readable, tracker
from longwatch.recording.calls import report_fault
from longwatch.recording.decorators import ambient_scope, wrap_function
from longwatch.recording.open_call import OpenCall
from longwatch.recording.scope import SCOPE, RecordingScope
from longwatch.recording.waiting import ActiveWait

MAX_THREADS = 1_000  # conversations that wait; beyond that the oldest are dropped
DETAIL_CHARACTERS = 200
HUMAN_REVIEW = ("action_requests", "action_request")  # in the value of an interrupt that wants an approval

_structures: WeakKeyDictionary[Any, dict[str, object]] = WeakKeyDictionary()
_waits: OrderedDict[object, dict[str, ActiveWait]] = OrderedDict()  # by conversation, then by interrupt


class GraphCall:
    """A call of a graph. Code between the chunks of its stream belongs to the caller."""

    scope: RecordingScope

    def __init__(self, thread_id: object) -> None:
        self.thread_id = thread_id  # LangGraph's name for a conversation
        self.has_own_run = False

    def succeed(self, result: object) -> None:
        tracker.end(self)  # unless the callbacks reported the end, with the graph's output

    def fail(self, error: BaseException) -> None:
        tracker.end(self, error=error)


def begin_graph(args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphCall | None:
    """Record the start of a graph's call, and its structure if it is not part of another graph."""
    try:
        graph, given, config = _called_with(*args, **kwargs)
        thread_id = (config.get("configurable") or {}).get("thread_id")
        outer = SCOPE.get() or ambient_scope()
        call = GraphCall(thread_id)
        tracker.begin(call, "agent", config.get("run_name") or graph.get_name(), input=readable(given))
        scope = tracker.scope_of(call)
        if scope is None:
            return None
        call.scope = scope
        call.has_own_run = outer is None or outer.run_id != scope.run_id
        if not (isinstance(outer, OpenCall) and outer.kind == "node"):
            scope.record("graph_structure", structure_of(graph))
        if isinstance(given, Command) and given.resume is not None:
            _end_waits(thread_id)
        STARTING_GRAPH.set(call)
    except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
        report_fault(error)
        return None
    return call


def _called_with(
    graph: Any, input: object = None, config: Mapping[str, Any] | None = None, **options: object
) -> tuple[Any, object, Mapping[str, Any]]:
    return graph, input, {**(getattr(graph, "config", None) or {}), **(config or {})}


def structure_of(graph: Any) -> dict[str, object]:
    """The nodes and edges of a graph, drawn once for each graph."""
    found = _structures.get(graph)
    if found is None:
        drawn = graph.get_graph()
        edges = [
            {
                "from": edge.source,
                "to": edge.target,
                **({"condition": str(edge.data or "")} if edge.conditional else {}),
            }
            for edge in drawn.edges
        ]
        nodes = [{"id": node.id, "name": node.name} for node in drawn.nodes.values()]
        found = _structures[graph] = {"nodes": nodes, "edges": edges}
    return found


def is_control_flow(error: BaseException, graph: object) -> bool:
    """Whether a node raised this to steer its graph. An interrupt begins a wait for a human."""
    if not isinstance(error, GraphBubbleUp):
        return False
    if isinstance(error, GraphInterrupt) and isinstance(graph, GraphCall):
        for interrupt in error.args[0] if error.args else ():
            _begin_wait(graph, interrupt)
    return True


def _begin_wait(graph: GraphCall, interrupt: Any) -> None:
    waits = _waits.setdefault(graph.thread_id, {})
    if interrupt.id in waits:  # the graph around a graph passes its interrupts on
        return
    value = interrupt.value
    is_review = isinstance(value, Mapping) and any(name in value for name in HUMAN_REVIEW)
    detail = None if graph.scope.limits is None else str(value)[:DETAIL_CHARACTERS]
    wait = ActiveWait("approval" if is_review else "answer", detail=detail, scope=graph.scope).begin()
    if not graph.has_own_run:  # otherwise the run ends with the graph, and a later call is another run
        waits[interrupt.id] = wait
    while len(_waits) > MAX_THREADS:
        _waits.popitem(last=False)


def _end_waits(thread_id: object) -> None:
    for wait in _waits.pop(thread_id, {}).values():
        wait.end()


def install() -> None:
    """Wrap the methods that run graphs, and record their nodes, tools and models through LangChain."""
    langchain.install()
    handler.is_control_flow = is_control_flow
    if not hasattr(Pregel.stream, "__wrapped__"):
        Pregel.stream = wrap_function(Pregel.stream, begin_graph)  # type: ignore[method-assign]
        Pregel.astream = wrap_function(Pregel.astream, begin_graph)  # type: ignore[method-assign]
