"""Promises about finding runs: newest first, by any filter, page by page."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidCursor
from longwatch.journal.base import Journal
from longwatch.model.event import Cursor
from longwatch.model.query_language import parse_query
from longwatch.model.run import Run, Status, conditions
from longwatch.model.run_query import WORK, RunQuery
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, new_run, run_ids


class RunListContract(Contract):
    """What `Journal.find_runs` and `Journal.find_run` promise."""

    def test_runs_are_listed_newest_first(self, journal: Journal, now: int) -> None:
        runs = [new_run() for _ in range(5)]
        for index, run in enumerate(runs):
            journal.append([event(run, now - 3600_000 * 13 * index, "workflow_start")])

        assert run_ids(journal.find_runs().runs) == runs

    def test_pages_of_runs_hold_every_run_once(self, journal: Journal, now: int) -> None:
        runs = [new_run() for _ in range(7)]
        journal.append(
            [event(run, now - 40_000_000 * (index // 2), "workflow_start") for index, run in enumerate(runs)]
        )

        for limit in (1, 2, 3, 7):
            found: list[str] = []
            cursor: Cursor | None = None
            while True:
                page = journal.find_runs(after=cursor, limit=limit)
                assert len(page.runs) <= limit
                found += run_ids(page.runs)
                cursor = page.cursor
                if cursor is None:
                    break
            assert sorted(found) == sorted(runs)

    def test_a_listed_run_has_its_usage_and_its_open_waits(self, journal: Journal, now: int) -> None:
        run = new_run()
        used = {"status": "completed", "model": "m", "input_tokens": 10, "output_tokens": 2}
        wait = {"reason": "approval", "detail": "deploy"}
        journal.append([event(run, now, "workflow_start", producer="p", number=1)])
        journal.append(
            [event(run, now + 1, "model_call", payload=used, call_id="c1", producer="p", number=2)]
        )
        journal.append(
            [
                event(run, now + 2, "model_call", payload=used, producer="q", number=1),
                event(run, now + 3, "waiting_started", payload=wait, call_id="w1", producer="p", number=3),
            ]
        )

        (listed,) = journal.find_runs().runs
        found = journal.find_run(run)

        assert found is not None
        for each in (listed, found):
            usage = each.totals.usage
            assert (usage.model_calls, [counts[:3] for counts in usage.tokens.values()]) == (2, [(2, 20, 4)])
            assert [(wait.reason, wait.detail, wait.since) for wait in each.waiting] == [
                ("approval", "deploy", now + 3)
            ]

        over = {"reason": "approval", "duration_ms": 40}
        ended = event(run, now + 43, "waiting_ended", payload=over, call_id="w1", producer="p", number=4)
        journal.append([ended])
        (listed,) = journal.find_runs().runs
        assert (listed.waiting, listed.totals.waited_ms) == ((), {"approval": 40})

    def test_a_listed_run_has_its_kind_and_its_ending(self, journal: Journal, now: int) -> None:
        run = new_run()
        journal.append(
            [
                event(run, now, "workflow_start", payload={"name": "Nightly report"}, producer="p", number=1),
                event(run, now + 1, "agent_start", agent_name="planner", producer="p", number=2),
                event(
                    run, now + 5, "workflow_error", payload={"error_message": "no"}, producer="p", number=3
                ),
            ]
        )

        (listed,) = journal.find_runs().runs

        assert (listed.run_id, listed.name, listed.kind) == (run, "Nightly report", "workflow")
        assert (listed.status, listed.error) == (Status.FAILED, "no")
        assert (listed.started_at, listed.ended_at) == (now, now + 5)
        assert listed.events == 3
        assert listed.agents == {"planner"}

    def test_a_listed_run_counts_the_warnings_of_its_ending(
        self, journal: Journal, open_again: OpenAgain, now: int
    ) -> None:
        run = new_run()
        ended = {"status": "succeeded", "warnings": ["s-1: install failed", "s-2 was terminated afterwards"]}
        journal.append(
            [event(run, now, "execution_started"), event(run, now + 5, "execution_ended", payload=ended)]
        )

        (listed,) = open_again().find_runs().runs

        assert (listed.status, listed.warning_count) == (Status.SUCCEEDED, 2)

    def test_a_run_that_another_process_ends_is_listed_once_and_as_ended(
        self, open_again: OpenAgain, now: int
    ) -> None:
        run = new_run()
        open_again().append(
            [event(run, now, "workflow_start", payload={"name": "n"}, producer="p", number=1)]
        )
        open_again().append([event(run, now + 90_000, "agent_start", producer="q", number=1)])
        open_again().append([event(run, now + 99_000, "workflow_complete", producer="q", number=2)])

        (listed,) = open_again().find_runs().runs

        assert (listed.started_at, listed.ended_at, listed.name) == (now, now + 99_000, "n")
        assert listed.status is Status.SUCCEEDED

    def test_a_worse_ending_never_replaces_a_better_one(self, open_again: OpenAgain, now: int) -> None:
        run = new_run()
        open_again().append([event(run, now, "SESSION_INITIATED")])
        open_again().append([event(run, now + 2, "AGENT_BACKGROUND_TASK_COMPLETED")])
        open_again().append([event(run, now + 3, "SESSION_FAILED", payload={"error_message": "timed out"})])

        journal = open_again()

        assert [each.status for each in journal.find_runs().runs] == [Status.SUCCEEDED]
        found = journal.find_run(run)
        assert found is not None
        assert (found.status, found.kind) == (Status.SUCCEEDED, "session")

    def test_storing_events_again_lists_the_run_once(self, open_again: OpenAgain, now: int) -> None:
        events = [event(new_run(), now, "workflow_start"), event(new_run(), now, "workflow_start")]
        open_again().append(events)

        open_again().append(events)

        assert sorted(run_ids(open_again().find_runs().runs)) == sorted(each.run_id for each in events)

    def test_a_listed_run_is_silent_if_its_last_attempt_is(self, journal: Journal, now: int) -> None:
        run = new_run()
        first, second = (
            event(run, at, "workflow_start", producer=producer, number=1, payload={"attempt": attempt})
            for at, producer, attempt in ((now - 400_000, "one", "a" * 8), (now - 300_000, "two", "b" * 8))
        )
        later = event(run, now - 200_000, producer="two", number=2)
        straggler = event(run, now - 1_000, producer="one", number=2)

        journal.append([first, second, later, straggler])

        [listed] = [each for each in journal.find_runs().runs if each.run_id == run]
        silent = [each for each in conditions(Run(listed), now) if each.name == "silent"]
        assert listed.last_event_at == now - 1_000
        assert [each.message for each in silent] == ["no event for 200 s; the run is still open"]

    def test_a_run_without_a_start_is_listed(self, journal: Journal, now: int) -> None:
        one, other = new_run(), new_run()
        journal.append([event(one, now, "agent_start", producer="p", number=1)])
        journal.append([event(other, now - 1, "tool_call")])

        assert run_ids(journal.find_runs().runs) == [one, other]

    def test_a_run_whose_start_arrives_late_is_found_by_the_fields_of_the_start(
        self, journal: Journal, now: int
    ) -> None:
        late, other = new_run(), new_run()
        journal.append([event(late, now, "tool_call")])
        journal.append([event(other, now - 500, "workflow_start")])
        journal.append([event(late, now + 1, "tool_call")])

        journal.append(
            [event(late, now - 1_000, "workflow_start", payload={"name": "Nightly", "kind": "job"})]
        )
        journal.append([event(late, now + 2, "tool_call")])
        journal.append([event(late, now + 3, "workflow_error")])

        assert run_ids(journal.find_runs().runs) == [other, late]
        for query in (RunQuery(text="nightly"), RunQuery(kind="job"), RunQuery(status=Status.FAILED)):
            assert run_ids(journal.find_runs(query).runs) == [late]

    def test_runs_are_found_by_each_filter(self, journal: Journal, now: int) -> None:
        running, failed, session = new_run(), new_run(), new_run()
        journal.append(
            [
                event(running, now, "workflow_start", payload={"name": "Daily Import"}),
                event(failed, now - 1_000, "workflow_start", payload={"kind": "job"}),
                event(failed, now - 900, "workflow_error"),
                event(session, now - 2_000, "SESSION_INITIATED"),
            ]
        )

        def find(**wanted: object) -> list[str]:
            return run_ids(journal.find_runs(RunQuery(**wanted)).runs)  # type: ignore[arg-type]

        assert find(status=Status.RUNNING) == [running, session]
        assert find(status=Status.FAILED) == [failed]
        assert find(status=frozenset({Status.RUNNING, Status.FAILED})) == [running, failed, session]
        assert find(status=frozenset({Status.DIED})) == []
        assert find(kind="session") == [session]
        assert find(kind="job") == [failed]
        assert find(since=now - 1_000) == [running, failed]
        assert find(until=now) == [failed, session]
        assert find(since=now - 1_500, until=now - 999) == [failed]
        assert find(text="daily imp") == [running]
        assert find(text=session.upper()) == [session]
        assert find(text="nothing like it") == []
        assert find(status=Status.RUNNING, kind="workflow") == [running]

    def test_a_listed_run_has_its_labels_and_its_tools(self, journal: Journal, now: int) -> None:
        run = new_run()
        first = {"tags": ["nightly"], "user": "ann", "session": "s-1"}
        later = {"tags": ["prod", "nightly"], "user": "bob"}
        journal.append([event(run, now, "workflow_start", payload=first, producer="p", number=1)])
        journal.append(
            [event(run, now + 1, "tool_call", payload={"operation": "fetch"}, producer="p", number=2)]
        )
        journal.append([event(run, now + 2, "run_tagged", payload=later, producer="p", number=3)])

        (listed,) = journal.find_runs().runs
        found = journal.find_run(run)

        assert found is not None
        for each in (listed, found):
            assert each.tags == {"nightly", "prod"}
            assert (each.labels.user, each.labels.session) == ("bob", "s-1")
            assert each.tools == {"fetch"}

    def test_a_query_is_paged_and_finds_every_run_once(self, journal: Journal, now: int) -> None:
        tagged = [new_run() for _ in range(3)]
        for index, run in enumerate(tagged):
            payload = {"tags": ["nightly"]}
            journal.append([event(run, now - 2 * index, "workflow_start", payload=payload)])
            journal.append([event(new_run(), now - 2 * index - 1, "workflow_start")])
        query = parse_query("tag:nightly -status:failed", now_ms=now)

        first = journal.find_runs(query, limit=2)
        rest = journal.find_runs(query, after=first.cursor, limit=2)

        assert run_ids(first.runs) == tagged[:2]
        assert (run_ids(rest.runs), rest.cursor) == (tagged[2:], None)

    def test_kinds_can_be_left_out(self, journal: Journal, now: int) -> None:
        project, conversation, turn, workflow = (new_run() for _ in range(4))
        journal.append(
            [
                event(workflow, now, "workflow_start"),
                event(project, now - 1, "project_created"),
                event(turn, now - 2, "turn_created"),
                event(conversation, now - 3, "conversation_created"),
            ]
        )

        first = journal.find_runs(WORK, limit=1)
        rest = journal.find_runs(WORK, after=first.cursor)
        no_turns = journal.find_runs(RunQuery(except_kinds=frozenset({"turn"})))
        neither = journal.find_runs(RunQuery(kind="turn", except_kinds=frozenset({"turn"})))

        assert run_ids(first.runs) == [workflow]
        assert run_ids(rest.runs) == [turn]
        assert run_ids(no_turns.runs) == [workflow, project, conversation]
        assert run_ids(neither.runs) == []
        assert run_ids(journal.find_runs(RunQuery(kind="project")).runs) == [project]

    def test_a_filtered_list_is_paged_too(self, journal: Journal, now: int) -> None:
        wanted = [new_run() for _ in range(4)]
        for index, run in enumerate(wanted):
            journal.append([event(run, now - 2 * index, "SESSION_INITIATED")])
            journal.append([event(new_run(), now - 2 * index - 1, "workflow_start")])

        first = journal.find_runs(RunQuery(kind="session"), limit=2)
        second = journal.find_runs(RunQuery(kind="session"), after=first.cursor, limit=2)

        assert run_ids(first.runs) == wanted[:2]
        assert run_ids(second.runs) == wanted[2:]
        assert second.cursor is None

    def test_a_list_cursor_that_no_journal_handed_out_is_refused(self, journal: Journal) -> None:
        with pytest.raises(InvalidCursor, match="start"):
            journal.find_runs(after=Cursor("nonsense"))

    def test_an_unknown_run_is_not_found(self, journal: Journal) -> None:
        assert journal.find_run("wf-nobody-knows") is None

    def test_one_run_is_found_with_everything_from_its_events(self, journal: Journal, now: int) -> None:
        run = new_run()
        journal.append(
            [
                event(run, now, "workflow_start", payload={"name": "n", "parent_run_id": "wf-0"}),
                event(run, now + 1, "tool_call", agent_name="a", payload={"status": "failed"}),
                event(run, now + 2, "tool_call", agent_name="b", payload={"status": "completed"}),
            ]
        )
        journal.append([event(run, now + 9, "workflow_complete")])

        found = journal.find_run(run)

        assert found is not None
        assert (found.run_id, found.name, found.parent_run_id) == (run, "n", "wf-0")
        assert (found.events, found.failed_calls) == (4, 1)
        assert found.agents == {"a", "b"}
        assert (found.started_at, found.last_event_at, found.ended_at) == (now, now + 9, now + 9)
        assert found.last_event_type == "workflow_complete"
