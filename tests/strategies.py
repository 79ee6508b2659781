"""Hypothesis strategies for events: anything a journal must hold, and runs as their producers record them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from hypothesis import strategies as st

from longwatch.model.event import MAX_OCCURRED_AT, MAX_WHOLE, RESERVED_PREFIX, Event

RUN_ID = "wf-00c0ffee"
TAGS = ("$set", "$bytes", "$decimal", "$map")
RUN_TYPES = (
    "workflow_start",
    "agent_start",
    "agent_end",
    "tool_call",
    "node_start",
    "node_stop",
    "node_stream",
    "workflow_complete",
    "workflow_error",
    "SESSION_INITIATED",
    "AGENT_ENTRYPOINT_FAILED",
    "AGENT_BACKGROUND_TASK_COMPLETED",
    "producer_closed",
    "process_joined",
    "operator_note",
    "execution_closed",
    "wave_added",
)

_A, _B = "aaaaaaaa", "bbbbbbbb"  # attempts
_P, _Q = ({"id": name, "host": "h", "pid": pid, "boot": "b"} for name, pid in (("a" * 16, 1), ("b" * 16, 2)))
_DIED: dict[str, object] = {"status": "died", "written_for": True, "error_code": "process_died"}

SAYINGS: tuple[dict[str, object], ...] = (  # payloads of such events
    {},
    {"status": "started", "operation": "search"},
    {"status": "running", "operation": "write", "node_id": "n1"},
    {"status": "success", "operation": "search", "duration_ms": 7.5},
    {"status": "completed", "name": "report", "count": 3, "node_id": "n2"},
    {"status": "failed", "error": "boom", "operation": "write"},
    {"status": "error", "written_for": "p", "error": "gone"},
    {"status": "partial", "written_for": "q", "count": 12},
    {"status": "skipped", "node_id": "n1", "execution_time_ms": 2},
    {"error": "", "name": "digest", "kind": "drill"},
    {"error_message": "crash", "node_id": "n2"},
    {"output": "text", "operation": "search"},
    {"attempt": _A},
    {"attempt": _A, "process": _P},
    {"attempt": _B, "process": _Q},
    {"attempt": _B, "process": {"host": "h", "pid": 3}},
    {"process": _P, "operation": "search"},
    {"attempt": _A, "status": "completed"},
    {"error_code": "producer_dead", "error": "gone"},
    {**_DIED, "processes": ["a" * 16], "not_before": 1001, "not_after": 1009},
    {
        **_DIED,
        "processes": ["a" * 16, "b" * 16, "h////3/"],
        "not_before": 1003,
        "not_after": 1005,
        "attempt": _B,
    },
    {**_DIED, "processes": [], "not_before": 900},
)

times = st.integers(min_value=0, max_value=MAX_OCCURRED_AT)
names = st.text(min_size=1, max_size=20)
run_ids = names.filter(lambda name: not name.startswith(RESERVED_PREFIX))
digests = st.text("0123456789abcdef", min_size=32, max_size=32)

decimals = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.integers(min_value=-(10**37), max_value=10**37),
    st.integers(min_value=-60, max_value=60),
)
set_items = st.text(max_size=8) | st.integers() | st.binary(max_size=8) | decimals
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | decimals
    | st.sets(set_items, max_size=4)
)
keys = st.sampled_from(TAGS) | st.text(max_size=10)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)
payloads = st.dictionaries(keys, values, max_size=5)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any event a journal may hold."""
    numbered = draw(st.booleans())
    return Event(
        run_id=draw(run_ids),
        event_id=draw(names),
        type=draw(names),
        occurred_at=draw(times),
        agent_name=draw(st.none() | names),
        payload=draw(payloads),
        call_id=draw(st.none() | names),
        parent_call_id=draw(st.none() | names),
        producer=draw(names) if numbered else None,
        number=draw(st.integers(1, MAX_WHOLE)) if numbered else None,
        previous_digest=draw(st.none() | digests),
        trace_id=draw(st.none() | digests),
        ttl=draw(st.none() | st.integers(0, MAX_WHOLE)),
    )


@st.composite
def runs(draw: st.DrawFn, run_id: str = RUN_ID, max_size: int = 10) -> Sequence[Event]:
    """Events of one run, each once: few times, names and call ids, so that ties and pairs are common."""
    drawn = draw(st.lists(_tellings, min_size=1, max_size=max_size))
    return [
        Event(
            run_id=run_id,
            event_id=f"{chance}-{index}",  # ids do not follow the order of the list
            type=type_,
            occurred_at=at,
            agent_name=agent,
            payload=payload,
            call_id=call_id,
            parent_call_id=parent,
            producer=producer,
            number=None if producer is None else index + 1,
        )
        for index, (type_, at, payload, chance, (agent, call_id, parent), producer) in enumerate(drawn)
    ]


_tellings = st.tuples(
    st.sampled_from(RUN_TYPES),
    st.integers(1000, 1004),
    st.sampled_from(SAYINGS),
    st.integers(0, 3),
    st.sampled_from(
        [
            (None, None, None),
            ("writer", None, None),
            ("critic", None, None),
            ("writer", "c1", None),
            (None, "c1", "c0"),
            ("critic", "c1", "c9"),
            ("critic", "c2", "c1"),
        ]
    ),
    st.sampled_from([None, "p", "q"]),
)


@st.composite
def batches(draw: st.DrawFn, events: Sequence[Event]) -> list[list[Event]]:
    """The same events in another order, in batches of any size, some of them empty."""
    shuffled = draw(st.permutations(events))
    cuts = sorted(draw(st.lists(st.integers(0, len(shuffled)), max_size=4)))
    edges = [0, *cuts, len(shuffled)]
    return [list(shuffled[low:high]) for low, high in pairwise(edges)]


@st.composite
def linked_calls(draw: st.DrawFn) -> Sequence[Event]:
    """Calls and links of spans that name any other span as their parent, also in circles."""
    spans = st.sampled_from(["c1", "c2", "c3", "c4", "c5", "c6"])
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["tool_call", "agent_start", "agent_end", "call_link", "call_link"]),
                st.integers(1000, 1004),
                spans,
                st.none() | spans,
                st.sampled_from([None, None, None, "p"]),
            ),
            min_size=1,
            max_size=12,
        )
    )
    return [
        Event(
            run_id=RUN_ID,
            event_id=f"{index}",
            type=type_,
            occurred_at=at,
            agent_name=f"agent of {span}" if type_.startswith("agent") else None,
            call_id=span,
            parent_call_id=parent,
            producer=producer,
            number=None if producer is None else index + 1,
        )
        for index, (type_, at, span, parent, producer) in enumerate(drawn)
    ]


MODEL_FIELDS: tuple[dict[str, object], ...] = (  # payloads of model calls
    {"status": "started", "model": "small", "provider": "openai", "operation": "chat", "recorded_by": "crew"},
    {"status": "started", "model": "large"},
    {"status": "completed", "model": "small", "response_id": "r1", "recorded_by": "otel", "input_tokens": 7},
    {"status": "completed", "response_id": "r1", "recorded_by": "openai", "output_tokens": 2.9},
    {"status": "completed", "response_id": "r1", "recorded_by": "crew", "finish_reasons": ["stop", 1]},
    {"status": "completed", "response_id": "r2", "same_as": "c1", "chunk_count": 3.5},
    {
        "status": "completed",
        "response_id": "r1",
        "recorded_by": "otel",
        "input_tokens": 7,
        "output_tokens": 1,
    },
    {"status": "completed", "same_as": "c1", "adds_usage": True, "input_tokens": 5, "output_tokens": 1},
    {"status": "completed", "recorded_by": "otlp", "operation": "embeddings", "input_tokens": 3},
    {"status": "completed", "same_as": "c2", "time_to_first_token_ms": 1.5, "cache_read_input_tokens": 4},
    {"status": "failed", "model": "large", "error": "overloaded", "cache_write_tokens": -1},
    {"reason": "approval", "detail": "deploy", "duration_ms": 2.5},
    {"reason": "lock", "duration_ms": 1.5},
    {"status": "completed"},
)


@st.composite
def model_calls(draw: st.DrawFn) -> Sequence[Event]:
    """Calls of models, some recorded twice and below each other, and waits."""
    types = ("model_call", "model_call", "model_call", "waiting_started", "waiting_ended", "tool_call")
    others = ("workflow_start", "workflow_complete", "producer_closed")
    calls = st.sampled_from(["c1", "c2", "c3", "c4"])
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from((*types, *others)),
                st.integers(1000, 1004),
                st.sampled_from(MODEL_FIELDS),
                st.none() | calls,
                st.none() | calls,
                st.sampled_from([None, "p", "q"]),
            ),
            min_size=1,
            max_size=14,
        )
    )
    return [
        Event(
            run_id=RUN_ID,
            event_id=f"{index}",
            type=type_,
            occurred_at=at,
            payload=payload,
            call_id=call_id,
            parent_call_id=parent,
            producer=producer,
            number=None if producer is None else index + 1,
        )
        for index, (type_, at, payload, call_id, parent, producer) in enumerate(drawn)
    ]
