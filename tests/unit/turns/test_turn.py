"""A turn is the fold of its events, whatever their order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.model.event import Event
from longwatch.model.run import Status, fold, summarise
from longwatch.turns import TurnDetails, TurnLine, TurnState, tag_of, turn_state
from longwatch.turns.turn import blocks_before, blocks_cursor
from longwatch.turns.views import TurnStatusView, TurnUpdate

TURN = "turn-1"

_TEXT = {"kind": "content", "text": "hi"}
_CREATED = {"project_id": "p", "conversation_id": "s", "number": 2, "prompt": "go"}


def warnings(type: str, at: int, name: str, /, **fields: object) -> Event:
    return Event(run_id=TURN, event_id=f"{TURN}-{name}", type=type, occurred_at=at, payload=fields)


def block(number: int, at: int, key: str = "00aa", item: int = 0, **fields: object) -> Event:
    name = f"{number:08d}-{item:03d}-{key}"
    return warnings("block", at, name, **{**_TEXT, "line_number": number, "item": item, **fields})


def delta(number: int, first: bool) -> Event:
    fields = {"kind": "content", "text": f"{number} ", "line_number": number, "first": first}
    return warnings("block_delta", 30 + number, f"{number:08d}-delta-{number}{first}", **fields)


CREATED = warnings("turn_created", 10, "00-created", **_CREATED)
STARTED = warnings("turn_started", 20, "00-started", executor="agent", process={"host": "h", "pid": 7})
DONE = warnings("turn_completed", 90, "00000009-000-00ff", result="ok")

stories = st.lists(
    st.one_of(
        st.just(CREATED),
        st.just(STARTED),
        st.just(DONE),
        st.builds(block, st.integers(1, 4), st.integers(30, 60), st.sampled_from(["00aa", "00bb"])),
        st.builds(delta, st.integers(1, 5), st.booleans()),
        st.builds(lambda at: warnings("turn_line", at, f"line-{at}", line={}), st.integers(25, 60)),
        st.builds(lambda at: warnings("turn_cancelled", at, f"cancel-{at}"), st.integers(50, 99)),
        st.builds(
            lambda at, word: warnings("turn_corrected", at, f"corrected-{at}-{word}", status=word),
            st.integers(50, 99),
            st.sampled_from(["failed", "succeeded"]),
        ),
        st.builds(
            lambda at, word: warnings("turn_result", at, f"result-{at}-{word}", reported=word),
            st.integers(50, 99),
            st.sampled_from(["success", "failure", "of another version"]),
        ),
        st.builds(
            lambda at: warnings("workflow_error", at, f"dead-{at}", error_message="gone", written_for=True),
            st.integers(50, 99),
        ),
    ),
    max_size=15,
)


def test_nothing_is_pending() -> None:
    state = turn_state([])

    assert (state.wire_status, state.blocks, state.last_updated) == ("pending", (), None)


def test_a_turn_knows_what_it_was_created_with() -> None:
    view = vars(TurnDetails.of(turn_state([CREATED, STARTED])))

    assert view == {
        "id": TURN,
        "project_id": "p",
        "session_id": "s",
        "number": 2,
        "prompt": "go",
        "status": "running",
        "blocks": [],
        "blocks_cursor": "0-e4a6a0577479b2b4",
        "block_count": 0,
        "error": None,
        "created_at": "1970-01-01T00:00:00.010Z",
        "started_at": "1970-01-01T00:00:00.020Z",
        "completed_at": None,
        "last_updated": "1970-01-01T00:00:00.020Z",
    }
    assert "blocks" not in vars(TurnLine.of(turn_state([CREATED])))


def test_the_end_is_visible_without_a_block() -> None:
    running = turn_state([CREATED, block(1, 30)])

    ended = running.plus([DONE])

    assert TurnStatusView.of(running).block_count == TurnStatusView.of(ended).block_count
    assert TurnStatusView.of(ended).status == "completed"
    assert tag_of(running) != tag_of(ended)


def test_an_end_written_for_a_dead_process_fails_the_turn() -> None:
    dead = warnings(
        "workflow_error", 50, "dead", status="failed", error_message="process 7 is gone", written_for=True
    )

    state = turn_state([CREATED, STARTED, dead])

    assert (state.wire_status, state.error) == ("failed", "process 7 is gone")


def test_every_end_is_completed_or_failed_on_the_wire() -> None:
    description = {
        status: turn_state([CREATED, warnings("turn_failed", 50, "x", status=status.value)])
        for status in Status
    }

    assert description[Status.SUCCEEDED].wire_status == "completed"
    for status in (Status.FAILED, Status.PARTIAL, Status.CANCELLED, Status.UNKNOWN):
        assert description[status].wire_status == "failed"
        assert description[status].error


def test_events_that_do_not_name_their_predecessor_leave_no_gap() -> None:
    old = [block(2, 30), block(7, 31)]
    new = [block(9, 32, after_line=8), block(12, 33, after_line=10)]

    assert turn_state(old).missing_lines == ()
    assert turn_state([*new, *old]).missing_lines == ((8, 8), (10, 10))


def test_a_block_of_unknown_kind_is_none() -> None:
    odd = warnings("block", 30, "x", kind="sculpture")

    assert turn_state([CREATED, odd, warnings("block", 31, "y")]).blocks == ()


def test_blocks_that_were_not_fed_as_lines_come_last_and_in_order() -> None:
    state = turn_state(
        [warnings("block", 50, "b", **_TEXT), warnings("block", 40, "a", **_TEXT), block(3, 60)]
    )

    assert [each.id for each in state.blocks] == [f"{TURN}-00000003-000-00aa", f"{TURN}-a", f"{TURN}-b"]


def test_an_event_that_comes_again_changes_nothing() -> None:
    once = turn_state([CREATED, block(1, 30), DONE])

    assert once.plus([block(1, 30), DONE, CREATED]) == once
    assert once.plus([]) is once


def test_a_line_stored_twice_is_one_block_and_the_earlier_time_counts() -> None:
    early, late = block(1, 30), block(1, 45)

    assert turn_state([early, late]).blocks == turn_state([late, early]).blocks == turn_state([early]).blocks


@given(stories, st.randoms(use_true_random=False), st.integers(0, 15))
def test_any_order_and_any_division_give_the_same_turn(story: list[Event], random: object, cut: int) -> None:
    shuffled = list(story)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    whole = TurnState(TURN).plus(story)
    parts = TurnState(TURN).plus(shuffled[:cut]).plus(shuffled[cut:])

    assert parts == whole
    assert tag_of(parts) == tag_of(whole)


@given(stories)
def test_a_turn_ends_as_its_run_does(story: list[Event]) -> None:
    state, run = turn_state(story), fold(story)

    if run is not None:
        assert (state.correction or state.ending) == run.summary.ending == summarise(story)[TURN].ending


def test_a_correction_changes_nothing_that_readers_of_the_turn_received() -> None:
    ended = turn_state([CREATED, DONE])
    corrected = ended.plus(
        [warnings("turn_corrected", 95, "corrected", status="failed", error_message="crash")]
    )

    assert corrected.correction is not None
    assert corrected.correction.status is Status.FAILED
    before, after = (replace(TurnDetails.of(state), last_updated="") for state in (ended, corrected))
    assert before == after


@pytest.mark.parametrize("claim", ["turn_claimed", "turn_end_claimed"])
def test_a_claim_alone_changes_nothing_that_readers_receive(claim: str) -> None:
    claimed = warnings(claim, 10, "00-created-claimed", executor="agent")
    before, after = turn_state([CREATED]), turn_state([CREATED, claimed])

    assert tag_of(after) == tag_of(before)
    assert TurnDetails.of(after) == TurnDetails.of(before)


@given(stories, stories)
def test_the_blocks_after_a_cursor_complete_those_before_it_whatever_arrives(
    earlier: list[Event], later: list[Event]
) -> None:
    had = turn_state(earlier)
    now = had.plus(later)

    kept = blocks_before(now, blocks_cursor(had))

    completed = (*had.blocks[:kept], *now.blocks[kept:])
    assert [each.id for each in completed] == [each.id for each in now.blocks]


def test_a_block_that_is_inserted_later_invalidates_the_cursor_behind_it() -> None:
    had = turn_state([CREATED, block(1, 30, "01"), block(3, 40, "03")])

    appended, inserted = had.plus([block(4, 50, "04")]), had.plus([block(2, 50, "02")])

    assert blocks_before(appended, blocks_cursor(had)) == 2
    assert blocks_before(inserted, blocks_cursor(had)) == 0
    assert blocks_before(inserted, blocks_cursor(had, 1)) == 1
    assert blocks_before(turn_state([CREATED]), blocks_cursor(had)) == 0  # a server that lags behind


def test_an_update_has_neither_the_prompt_nor_the_blocks_that_the_client_has() -> None:
    state = turn_state([CREATED, block(1, 30, "01"), block(2, 40, "02")])

    update, whole = vars(TurnUpdate.of(state, 1)), vars(TurnDetails.of(state))

    assert [each.sequence for each in update["blocks"]] == [1]
    assert update["blocks_from"] == 1
    unsent = {"prompt", "blocks"}
    assert {key: update[key] for key in whole.keys() - unsent} == {
        key: whole[key] for key in whole.keys() - unsent
    }
    assert update.keys() - whole.keys() == {"blocks_from"}
