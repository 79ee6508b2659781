"""Projects, sessions and turns as the turn polling requirements have them, the same on every engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from longwatch.journal.claims import ending_id
from longwatch.model.endings import ENDS
from longwatch.model.process import process_of
from tests.contract.events import read_all
from tests.integration.server.stores import (
    LINES,
    Stores,
    assistant,
    is_polled,
    new_turn,
    result,
    served,
    until,
)

ROUNDS = 25


def waiting_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


async def test_a_turn_goes_from_pending_through_running_to_completed(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http, "write a poem")
        seen = [(await server.http.get(f"{turn}/status")).json()["status"]]

        fed = await server.http.post(
            f"{turn}/lines?first=1", content=assistant("Roses", "Violets"), headers=LINES
        )
        seen.append((await server.http.get(f"{turn}/status")).json()["status"])
        await server.http.post(f"{turn}/lines?first=2", content=result(), headers=LINES)
        whole = (await server.http.get(turn)).json()

        assert seen == ["pending", "running"]
        assert fed.json() == {"accepted": 1, "blocks": 2, "status": "running"}
        assert (whole["status"], whole["prompt"], whole["block_count"]) == ("completed", "write a poem", 2)
        assert [(block["sequence"], block["content"]["text"]) for block in whole["blocks"]] == [
            (0, "Roses"),
            (1, "Violets"),
        ]
        assert whole["completed_at"] >= whole["started_at"] >= whole["created_at"]


async def test_an_unchanged_turn_returns_304_and_its_end_is_news_without_a_new_block(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        await server.http.post(f"{turn}/lines", content=assistant("hello"), headers=LINES)
        tags = {url: (await server.http.get(url)).headers["etag"] for url in (turn, f"{turn}/status")}

        for url, tag in tags.items():
            response = await server.http.get(url, headers={"If-None-Match": tag})
            assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", tag)

        await server.http.post(f"{turn}/lines", content=result(), headers=LINES)

        for url, tag in tags.items():
            response = await server.http.get(url, headers={"If-None-Match": tag})
            assert (response.status_code, response.json()["status"]) == (200, "completed")
            assert response.json()["block_count"] == 1


async def test_a_client_that_states_its_blocks_gets_the_status_and_the_other_blocks(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http, "a long prompt")
        await server.http.post(f"{turn}/lines", content=assistant("one", "two"), headers=LINES)
        first = await server.http.get(turn)
        after = {"blocks_after": first.json()["blocks_cursor"]}
        known = {"If-None-Match": first.headers["etag"]}

        unchanged = await server.http.get(turn, params=after, headers=known)
        await server.http.post(f"{turn}/lines", content=f"{assistant('three')}\n{result()}", headers=LINES)
        update = await server.http.get(turn, params=after, headers=known)
        whole = await server.http.get(turn)

        assert (unchanged.status_code, unchanged.headers["etag"]) == (304, first.headers["etag"])
        assert update.headers["etag"] == whole.headers["etag"] != first.headers["etag"]
        assert "prompt" not in update.json()
        assert (update.json()["status"], update.json()["blocks_from"]) == ("completed", 2)
        assert first.json()["blocks"] + update.json()["blocks"] == whole.json()["blocks"]
        assert update.json()["blocks_cursor"] == whole.json()["blocks_cursor"]
        assert not (
            await server.http.get(turn, params={"blocks_after": whole.json()["blocks_cursor"]})
        ).json()["blocks"]


async def test_blocks_after_is_a_cursor_of_this_turn_or_an_error(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        await server.http.post(f"{turn}/lines", content=assistant("one"), headers=LINES)

        unknown = await server.http.get(turn, params={"blocks_after": f"1-{'0' * 16}"})

        assert (unknown.json()["blocks_from"], len(unknown.json()["blocks"])) == (0, 1)
        for text in ("", "1", "-1", "x", f"1-{'0' * 15}", f"{'9' * 10}-{'0' * 16}", f"٣-{'0' * 16}"):
            response = await server.http.get(turn, params={"blocks_after": text})
            assert response.status_code == 422, text
            assert response.json()["error"]["details"][0]["field"] == "blocks_after"


async def test_two_servers_give_the_same_tags(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        turn = await new_turn(one.http)
        await one.http.post(f"{turn}/lines", content=assistant("hello"), headers=LINES)
        session = turn.rpartition("/turns/")[0]

        for url in (turn, f"{turn}/status", f"{session}/turns", session, "/api/projects"):
            tag = (await one.http.get(url)).headers["etag"]
            response = await other.http.get(url, headers={"If-None-Match": tag})

            assert (url, response.status_code) == (url, 304)


async def test_a_write_is_in_the_next_response_of_its_server(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        await server.http.get(turn)
        lines = "\n".join(assistant(f"{number}") for number in range(600))

        await server.http.post(f"{turn}/lines?first=1", content=lines, headers=LINES)

        assert (await server.http.get(turn)).json()["block_count"] == 600
        assert (await server.http.get(f"{turn}/status")).json()["block_count"] == 600


async def test_a_write_is_in_the_response_of_any_server_that_is_given_its_position(
    stores: Stores,
) -> None:
    async with served(stores) as one, served(stores) as other:
        turn = await new_turn(one.http)
        for address in (turn, f"{turn}/status"):
            await other.http.get(address)  # it is in the memory of both

        for number in range(1, 6):
            fed = await one.http.post(f"{turn}/lines", content=assistant(f"{number}"), headers=LINES)
            position = {"Longwatch-Position": fed.headers["longwatch-position"]}
            responses = [await other.http.get(url, headers=position) for url in (f"{turn}/status", turn)]
            assert [response.json()["block_count"] for response in responses] == [number, number]
        ended = await one.http.post(f"{turn}/interrupt")
        position = {"Longwatch-Position": ended.headers["longwatch-position"]}
        for url in (f"{turn}/status", turn):
            assert (await other.http.get(url, headers=position)).json()["status"] == "failed"
        listed = await other.http.get(turn.rpartition("/")[0], headers=position)
        assert listed.json()["turns"][0]["status"] == "failed"


async def test_a_new_turn_is_listed_by_any_server_that_is_given_its_position(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        first = await new_turn(one.http)
        turns = first.rpartition("/")[0]
        await other.http.get(turns)

        made = await one.http.post(turns, json={})
        position = {"Longwatch-Position": made.headers["longwatch-position"]}
        listed = await other.http.get(turns, headers=position)
        shown = await other.http.get(f"{turns}/{made.json()['id']}", headers=position)

        assert [turn["number"] for turn in listed.json()["turns"]] == [1, 2]
        assert shown.status_code == 200


async def test_a_position_of_something_else_is_refused(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)

        for url in (f"{turn}/status", turn):
            response = await server.http.get(url, headers={"Longwatch-Position": "turn-other-00-created"})
            assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_cursor")


async def test_a_long_poll_returns_a_change_that_another_server_made(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        turn = await new_turn(one.http)

        for url in (f"{turn}/status", turn):
            tag = (await one.http.get(url)).headers["etag"]
            poll = asyncio.create_task(one.http.get(url, params={"wait": 20}, headers={"If-None-Match": tag}))
            await until(lambda: is_polled(one.context, turn))
            await other.http.post(f"{turn}/lines", content=assistant(url), headers=LINES)
            response = await poll

            assert (response.status_code, response.json()["status"]) == (200, "running")


async def test_a_long_poll_without_news_ends_as_304_at_its_timeout(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)

        for url in (f"{turn}/status", turn):
            tag = (await server.http.get(url)).headers["etag"]
            response = await server.http.get(url, params={"wait": 1}, headers={"If-None-Match": tag})

            assert response.status_code == 304


async def test_a_new_turn_cancels_the_one_that_runs_and_a_user_can_interrupt(stores: Stores) -> None:
    async with served(stores) as server:
        first = await new_turn(server.http)
        await server.http.post(f"{first}/lines", content=assistant("hello"), headers=LINES)

        second = await new_turn(server.http)
        stopped = await server.http.post(f"{second}/interrupt", json={"reason": "enough"})
        again = await server.http.post(f"{second}/interrupt")

        turns = (await server.http.get(first.rpartition("/")[0])).json()["turns"]
        assert [turn["status"] for turn in turns] == ["failed", "failed"]
        assert "was started in the session" in turns[0]["error"]
        assert (stopped.status_code, stopped.json()["error"]) == (200, "enough")
        assert again.json()["error"] == "enough"
        assert "blocks" not in turns[0]


async def test_the_turn_that_a_new_one_cancels_has_failed_in_the_next_response(stores: Stores) -> None:
    async with served(stores) as server:
        first = await new_turn(server.http)
        before = await server.http.get(first)

        await new_turn(server.http)
        after = await server.http.get(first, headers={"If-None-Match": before.headers["etag"]})

        assert (before.json()["status"], after.status_code) == ("pending", 200)
        assert after.json()["status"] == "failed"


async def test_requests_that_end_a_turn_at_once_on_two_servers_have_one_outcome(stores: Stores) -> None:
    async with served(stores) as one, served(stores) as other:
        for _ in range(ROUNDS):
            turn = await new_turn(one.http)
            requests = [
                one.http.post(f"{turn}/interrupt"),
                other.http.post(f"{turn}/lines?first=1", content=result(), headers=LINES),
                other.http.post(f"{turn}/end", json={"status": "failed", "exit_code": 3}),
            ]

            responses = await asyncio.gather(*requests)
            position = {"Longwatch-Position": responses[0].headers["longwatch-position"]}
            later = [await each.http.get(f"{turn}/status", headers=position) for each in (one, other)]

            settled = [*(response for response in responses if response.status_code == 200), *later]
            assert len({response.json()["status"] for response in settled}) == 1
            assert all(response.status_code in (200, 409) for response in responses)


async def test_invalid_lines_are_named_and_repeated_ones_count_once(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        lines = f"{assistant('one')}\nnot json\n"

        bad = await server.http.post(f"{turn}/lines?first=1", content=lines, headers=LINES)
        again = await server.http.post(f"{turn}/lines?first=1", content=assistant("one"), headers=LINES)
        await server.http.post(f"{turn}/lines?first=2", content=result(), headers=LINES)
        late = await server.http.post(f"{turn}/lines?first=3", content=assistant("late"), headers=LINES)

        assert bad.status_code == 400
        assert bad.json()["error"]["code"] == "invalid_line"
        assert bad.json()["error"]["message"].startswith("Line 2 ")
        assert again.json() == {"accepted": 1, "blocks": 0, "status": "running"}
        assert (late.status_code, late.json()["error"]["code"]) == (409, "turn_ended")


async def test_missing_lines_are_reported_to_their_feeder_and_with_the_turn(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)

        whole = await server.http.post(f"{turn}/lines?first=1", content=f"{assistant('a')}\n", headers=LINES)
        gap = await server.http.post(f"{turn}/lines?first=4", content=f"{assistant('d')}\n", headers=LINES)
        shown = (await server.http.get(turn)).json()
        await server.http.post(f"{turn}/lines?first=2", content=f"\n{assistant('c')}\n", headers=LINES)

        assert "missing" not in whole.json()
        assert gap.json() == {"accepted": 1, "blocks": 1, "status": "running", "missing": [[2, 3]]}
        assert shown["missing_lines"] == [[2, 3]]
        assert "missing_lines" not in (await server.http.get(turn)).json()


async def test_a_turn_whose_process_died_ends_although_it_is_only_polled(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        with waiting_process() as process:
            named = process_of(process.pid).fields
            claimed = await server.http.post(f"{turn}/start", json={"executor": "agent", "process": named})
            tag = (await server.http.get(f"{turn}/status")).headers["etag"]
            process.kill()

        response = await server.http.get(f"{turn}/status?wait=30", headers={"If-None-Match": tag})

        assert (claimed.status_code, claimed.json()["status"]) == (200, "running")
        assert (response.status_code, response.json()["status"]) == (200, "failed")
        turn_id = turn.rpartition("/")[2]
        events = await server.context.call(read_all, server.context.journal, turn_id)
        assert [event.event_id for event in events[0] if event.type in ENDS] == [ending_id(turn_id)]
        assert "exited without reporting an outcome" in (await server.http.get(turn)).json()["error"]


async def test_another_executor_cannot_claim_a_claimed_turn(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        await server.http.post(f"{turn}/start", json={"executor": "first"})

        response = await server.http.post(f"{turn}/start", json={"executor": "second"})

        assert (response.status_code, response.json()["error"]["code"]) == (409, "turn_taken")


async def test_a_missing_resource_is_reported_by_its_name(stores: Stores) -> None:
    async with served(stores) as server:
        turn = await new_turn(server.http)
        turn_id = turn.rpartition("/")[2]
        cases = {
            "/api/projects/none": "project_not_found",
            "/api/projects/none/sessions": "project_not_found",
            "/api/projects/p1/sessions/none": "session_not_found",
            "/api/projects/p1/sessions/none/turns": "session_not_found",
            "/api/projects/p1/sessions/s1/turns/turn-none": "turn_not_found",
            "/api/projects/p1/sessions/s1/turns/turn-none/status": "turn_not_found",
            f"/api/projects/p2/sessions/s1/turns/{turn_id}/status": "project_not_found",
        }

        for url, code in cases.items():
            response = await server.http.get(url)
            assert (url, response.status_code, response.json()["error"]["code"]) == (url, 404, code)


async def test_projects_and_sessions_are_made_once_and_listed_in_their_order(stores: Stores) -> None:
    async with served(stores) as server:
        for number in (1, 2):
            await server.http.post("/api/projects", json={"id": f"p{number}", "name": f"Project {number}"})
            made = await server.http.post(
                "/api/projects/p1/sessions", json={"id": f"s{number}", "title": "T"}
            )
            assert made.status_code == 201
        same = await server.http.post("/api/projects", json={"id": "p1", "name": "Project 1"})
        other = await server.http.post("/api/projects", json={"id": "p1", "name": "Another"})
        unnamed = await server.http.post("/api/projects", json={})

        projects = (await server.http.get("/api/projects")).json()["projects"]
        sessions = (await server.http.get("/api/projects/p1/sessions")).json()["sessions"]

        assert (same.status_code, other.status_code) == (201, 409)
        assert [project["id"] for project in projects] == ["p1", "p2", unnamed.json()["id"]]
        assert [session["id"] for session in sessions] == ["s1", "s2"]
        assert sessions[0]["last_turn"] is None
