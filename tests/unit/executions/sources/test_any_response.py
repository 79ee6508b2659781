"""Whatever a system responds, nothing breaks, and no end is found that it did not report."""

from __future__ import annotations

from email.message import Message
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longwatch.executions.model import Job, JobState
from longwatch.executions.sources.declarations import Declaration, normalize
from longwatch.executions.sources.expressions import value_at
from longwatch.executions.sources.http import parse_response
from longwatch.executions.sources.mapping import RawJob, map_job, map_status, mark_superseded, new_execution
from longwatch.executions.sources.shipped import AWS, HTTP
from longwatch.storage.http import HttpResponse

NAMES = sorted(
    {
        name
        for each in AWS.values()
        for name in (each.status, each.began, each.plan, each.since, "phases", "LastUpdatedTime")
        if name
    }
)
WORDS = [*sorted({word.upper() for each in AWS.values() for word in each.statuses}), "done", "MELTING", ""]
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from([*AWS.values()]), values)
def test_an_end_is_a_status_of_the_table_at_the_path_of_the_status(
    declaration: Declaration, fields: Any
) -> None:
    thing = RawJob(fields)

    mapped = map_status(declaration, thing)

    if mapped is None:
        return
    execution = new_execution(
        declaration, "x", thing, mapped, region=None, account=None, now=1_794_736_800_000
    )
    later = mark_superseded(declaration, execution, thing, mapped)
    job = map_job(Job("x"), later)
    assert later == mapped  # the same response is never something later
    if job.state is JobState.FINISHED:
        assert declaration.statuses[normalize(value_at(fields, declaration.status or ""))].is_end


@given(st.integers(100, 599), st.binary(max_size=64) | values.map(lambda value: repr(value).encode()))
def test_an_http_response_is_something_or_a_problem_or_nothing(code: int, body: bytes) -> None:
    found = parse_response(HttpResponse(code, body, Message()), HTTP, "https://jobs.example/1")

    if isinstance(found, RawJob):
        assert 200 <= code < 300
        assert map_status(HTTP, found) is not None
