"""Messages as they are written: server-sent events, and objects of the WebSocket."""

from __future__ import annotations

import json

from longwatch.errors import JournalBusy, TurnNotFound
from longwatch.model.event import Event
from longwatch.server.live.messages import CLOSING, beat, event_message, failure, message

EVENT = Event(
    run_id="wf-1", event_id="e1", type="note", occurred_at=5, payload={"text": "line\nbreak\r\u2028 ü"}
)


def test_an_event_is_one_server_sent_event_whatever_its_payload_holds() -> None:
    frame = event_message("run:wf-1", EVENT, late=False, cursor="7")

    lines = frame.sse.decode().split("\n")
    assert lines[0] == "id: 7"
    assert lines[1] == "event: event"
    assert lines[3:] == ["", ""]
    assert "\r" not in frame.sse.decode()
    assert json.loads(lines[2].removeprefix("data: ")) == {
        "topic": "run:wf-1",
        "event": {
            "run_id": "wf-1",
            "event_id": "e1",
            "type": "note",
            "occurred_at": 5,
            "payload": {"text": "line\nbreak\r\u2028 ü"},
        },
        "late": False,
    }


def test_a_message_without_a_cursor_has_no_id() -> None:
    assert beat(12).sse == b'event: beat\ndata: {"now":12}\n\n'
    assert CLOSING.sse == b"event: closing\ndata: {}\n\n"


def test_the_socket_sends_the_same() -> None:
    frame = event_message("run:wf-1", EVENT, late=True, cursor='7"')

    parsed = json.loads(frame.wire)

    assert parsed["event"] == "event"
    assert parsed["cursor"] == '7"'
    assert parsed["data"] == json.loads(frame.data)
    assert json.loads(beat(12).wire)["cursor"] is None


def test_a_message_moves_to_another_cursor_without_being_written_again() -> None:
    frame = message("block", "turn:p/s/t", "3", block={})

    moved = frame.at("12~t:3")

    assert moved.body is frame.body
    assert moved.sse.startswith(b"id: 12~t:3\nevent: block\n")


def test_a_failure_has_a_stable_code() -> None:
    assert json.loads(failure("turn:p/s/t", TurnNotFound("There is no such turn.")).data) == {
        "topic": "turn:p/s/t",
        "code": "turn_not_found",
        "message": "There is no such turn.",
    }
    assert json.loads(failure("runs", JournalBusy("x")).data)["code"] == "journal_unavailable"
