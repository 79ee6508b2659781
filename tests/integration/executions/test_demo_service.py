"""The demo's service: the same responses with the real client over the wire and in this process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.cli.demo import service
from longwatch.cli.demo.drill import DemoOrchestrator, new_drill
from longwatch.cli.demo.service import FastSource, drs_service
from longwatch.executions.model import Execution
from longwatch.executions.responses import SourceResponse
from longwatch.testing.clock import FakeClock


def test_a_drill_reads_the_same_over_the_wire_and_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    over_the_wire = responses()

    monkeypatch.setattr(service, "find_spec", lambda name: None)
    in_this_process = responses()

    assert len(over_the_wire) == 7
    assert plain(over_the_wire) == plain(in_this_process)


def test_the_users_aws_settings_do_not_keep_the_client_from_the_demo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with drs_service(FakeClock(), speed=1.0, interval_ms=40) as drs:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere")
        drill = new_drill("drill-1", FakeClock().now_ms())
        drill = DemoOrchestrator(drs.jobs, 0.5, FakeClock()).next_stage(drill) or drill

        assert isinstance(drs.source.poll([drill])[drill.key], SourceResponse)


def responses() -> list[SourceResponse]:
    clock, found = FakeClock(), list[SourceResponse]()
    with drs_service(clock, speed=2.0, interval_ms=40) as drs:
        assert isinstance(drs.source, FastSource)
        orchestrator, drill = DemoOrchestrator(drs.jobs, 0.5, clock), new_drill("drill-1", clock.now_ms())
        for _ in range(7):
            drill = orchestrator.next_stage(drill) or drill
            response = poll(drs.source, drill)
            assert response.next_at == response.at + 40
            found.append(response)
            clock.advance(0.4)
    return found


def poll(source: FastSource, drill: Execution) -> SourceResponse:
    response = source.poll([drill])[drill.key]
    assert isinstance(response, SourceResponse)
    return response


def plain(responses: list[SourceResponse]) -> list[SourceResponse]:
    """Without the reasons, which are another call's."""
    return [
        replace(
            response,
            jobs={
                job_id: replace(job, items=tuple(replace(each, reason=None) for each in job.items))
                for job_id, job in response.jobs.items()
            },
        )
        for response in responses
    ]
