"""The board of executions and the page of one: live, true to the record, accessible, and never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from longwatch.executions.model import Evidence, Job, JobState, Stage, StepState, Verdict, WorkItem
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.summary import Status
from tests.browser.boards import DONE, Board, named
from tests.browser.conftest import DESKTOP, PHONE, OpenPage, Serve
from tests.browser.server_process import Served
from tests.browser.test_markup import ATTACK, ATTACKS, ID, unharmed
from tests.browser.test_views import serious, sideways, turn_light
from tests.integration.server.execution_stories import (
    FAILED,
    GOING,
    LAUNCHED,
    PENDING,
    action,
    fresh,
    now_ms,
    wave_job,
)

VIEWS = {
    "board": ("/executions", "East coast drill"),
    "board, none": ("/executions?text=nothing-has-this-name", "No execution matches"),
    "running": ("/executions/x-running", "InsufficientInstanceCapacity"),
    "recovery": ("/executions/x-recovery", "join domain"),
    "ended": ("/executions/x-partial", "Evidence"),
    "warned": ("/executions/x-warned", "2 warnings"),
    "overdue": ("/executions/x-overdue", "overdue: past its deadline"),
    "its run": ("/runs/plan-east%2Fx-running", "Board"),
    "none": ("/executions/x-nobody", "Execution not found"),
}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    board = Board(tmp_path_factory.mktemp("board") / "executions.db")
    board.everything()
    yield board
    board.close()


@pytest.fixture(scope="module")
def shown(board: Board) -> Iterator[Served]:
    served = Served(board.path)
    served.start()
    yield served
    served.kill()


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_what_it_should_and_axe_finds_nothing_serious(
    shown: Served, open_page: OpenPage, view: str, width: int
) -> None:
    path, text = VIEWS[view]

    page = open_page(shown.url + path, width=width, quiet=view != "none")

    expect(page.get_by_text(text).locator("visible=true").first).to_be_visible()
    assert sideways(page) == 0
    assert serious(page) == []
    turn_light(page)
    assert serious(page) == []


def test_a_row_shows_the_progress_of_an_execution_and_why_it_still_runs(
    shown: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{shown.url}/executions")

    running = page.locator("a.execution-row", has_text="x-running")
    expect(running).to_contain_text("1 of 4 waves · 3 of 9 done, 1 failed")
    expect(running).to_contain_text(
        "waiting for services: s-svc-mail (in progress), s-svc-search (in progress)"
    )
    expect(running).to_contain_text(re.compile(r"\d+ min – \d+ min to go"))
    expect(running.get_by_role("img")).to_have_attribute(
        "aria-label",
        "databases: 2 launched, 1 failed; services: 1 launched, 2 in progress, 1 pending; "
        "front: 2 pending; 1 more to come",
    )
    expect(page.locator("a.execution-row", has_text="x-overdue")).to_contain_text(
        "unwatched: poll overdue by"
    )
    expect(page.locator("a.execution-row", has_text="x-warned")).to_contain_text("succeeded with 2 warnings")
    expect(page.locator("a.execution-row", has_text="x-partial")).to_contain_text("partial")


def test_a_new_execution_appears_by_itself_progresses_and_ends(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    board = Board(tmp_path / "live.db")
    served = serve(tmp_path / "live.db")
    page = open_page(f"{served.url}/executions")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    drill = board.watched("x-live", "one", "two", name="fresh drill")
    row = page.locator("a.execution-row")
    expect(row).to_contain_text("waiting for one: the first response from drs about job job-0")
    drill.receive(wave_job(0, LAUNCHED, GOING), wave_job(1, PENDING))
    expect(row).to_contain_text("1 of 3 done")
    drill.receive(wave_job(0, LAUNCHED, FAILED, state=DONE), wave_job(1, LAUNCHED, state=DONE))

    expect(row).to_contain_text("partial")
    expect(row).to_contain_text("2 of 2 waves · 2 of 3 done, 1 failed")
    board.close()


def test_the_page_of_one_follows_its_servers_to_the_verdict(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    board = Board(tmp_path / "live.db")
    drill = board.watched("x-live", "one", name="fresh drill")
    drill.receive(named(0, ("web", PENDING), ("db", PENDING)))
    served = serve(tmp_path / "live.db")
    page = open_page(f"{served.url}/executions/x-live")
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    web = page.locator(".item", has_text="s-web")
    expect(web).to_contain_text("pending")
    drill.receive(named(0, ("web", GOING), ("db", GOING)))
    expect(web).to_contain_text("in progress")
    expect(web.locator(".bar")).to_have_count(2)
    drill.change(lease_holder="poller-7", lease_until=now_ms() + 90_000)
    expect(page.get_by_label("Polling")).to_contain_text("poller-7, expires in")
    drill.receive(named(0, ("web", LAUNCHED), ("db", FAILED), state=DONE))

    expect(page.locator(".execution-head .badge")).to_have_text("partial")
    expect(page.get_by_label("Verdict")).to_contain_text("s-db: InsufficientInstanceCapacity")
    expect(page.get_by_label("Evidence")).to_contain_text("drs:DescribeJobs")
    expect(page.get_by_label("Evidence")).to_contain_text("LAUNCHED")
    expect(web.locator(".bar")).to_have_count(3)
    board.close()


def test_only_drs_has_waves_of_servers_that_are_launched(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    board = Board(tmp_path / "url.db")
    watched = board.watched("x-url", "site", source="http", name="the site")
    watched.receive(wave_job(0, LAUNCHED, state=DONE))
    served = serve(tmp_path / "url.db")

    page = open_page(f"{served.url}/executions")
    expect(page.locator("a.execution-row")).to_contain_text("1 of 1 stage · 1 of 1 done")
    assert not re.search("wave|server|launch", page.locator("main").inner_text(), re.I)
    page.locator("a.execution-row").click()
    expect(page.get_by_label("Stages and items")).to_contain_text("done")
    assert not re.search("wave|server|launch", page.get_by_label("Stages and items").inner_text(), re.I)
    board.close()


def test_two_plans_with_one_id_have_a_page_each_and_the_bare_id_offers_both(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    board = Board(tmp_path / "plans.db")
    board.watched("x-1", plan_id="shop", name="good").receive(wave_job(0, LAUNCHED, state=DONE))
    bad = board.watched("x-1", plan_id="web/eu", name="bad")
    served = serve(tmp_path / "plans.db")
    page = open_page(f"{served.url}/executions")

    page.locator("a.execution-row", has_text="bad").click()
    expect(page).to_have_url(re.compile(r"/executions/web%2Feu/x-1$"))
    bad.receive(wave_job(0, FAILED, state=DONE))
    expect(page.locator(".execution-head .badge")).to_have_text("failed")
    page.get_by_role("link", name="Log").click()
    expect(page.locator(".log-row", has_text="execution_ended")).to_be_visible()
    page = open_page(f"{served.url}/executions/x-1", quiet=False)
    page.get_by_role("link", name="shop").click()
    expect(page.locator("h1")).to_have_text("good")
    expect(page.locator(".execution-head .badge")).to_have_text("succeeded")
    board.close()


def test_a_page_resumes_after_the_server_was_killed(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    board = Board(tmp_path / "live.db")
    drill = board.watched("x-live", "one")
    drill.receive(wave_job(0, GOING))
    served = serve(tmp_path / "live.db")
    page = open_page(f"{served.url}/executions/x-live", quiet=False)
    expect(page.locator("#connection")).to_have_attribute("data-state", "live")

    served.kill()
    expect(page.locator("#connection")).to_have_attribute("data-state", "offline")
    drill.receive(wave_job(0, LAUNCHED, state=DONE))
    served.start()

    expect(page.locator(".execution-head .badge")).to_have_text("succeeded", timeout=60_000)
    board.close()


def test_an_execution_that_another_program_added_is_shown_before_the_first_poll(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    store = SqliteExecutionStore(tmp_path / "foreign.db")
    added = store.add(fresh("x-foreign", "one", name="from elsewhere"))
    served = serve(tmp_path / "foreign.db")

    page = open_page(f"{served.url}/executions/x-foreign", quiet=False)  # its run is not there yet
    expect(page.locator("h1")).to_have_text("from elsewhere")
    expect(page.get_by_role("link", name="Log", exact=True)).to_be_hidden()  # of a run that is not there
    store.update(replace(added, failures=4, last_error="no such region"))

    expect(page.get_by_label("Conditions")).to_contain_text("no such region")
    store.close()


def test_an_empty_list_shows_the_command_to_type(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    served = serve(tmp_path / "empty.db")

    page = open_page(f"{served.url}/executions")

    expect(page.get_by_text("No executions yet")).to_be_visible()
    expect(page.locator(".command code")).to_have_text(
        ["longwatch executions add --plan PLAN --wave NAME=JOB", "longwatch executions watch"]
    )
    assert serious(page) == []


def test_filters_are_in_the_url_and_survive_a_reload(shown: Served, open_page: OpenPage) -> None:
    page = open_page(f"{shown.url}/executions")

    page.get_by_role("button", name="Running", exact=True).click()
    page.get_by_label("Type").select_option("RECOVERY")
    page.get_by_label("Search executions").fill("oslo")

    expect(page).to_have_url(re.compile(r"status=running.*mode=RECOVERY.*text=oslo"))
    expect(page.locator("a.execution-row")).to_have_count(1)
    page.reload()
    expect(page.locator("a.execution-row")).to_contain_text("Recover Oslo")
    expect(page.get_by_label("Search executions")).to_have_value("oslo")


def test_keys_lead_from_the_board_to_a_wave_to_the_log_and_back(shown: Served, open_page: OpenPage) -> None:
    page = open_page(f"{shown.url}/executions?text=x-running")
    expect(page.locator("a.execution-row")).to_have_count(1)

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("East coast drill")
    expect(page.locator(".item").first).to_be_visible()
    page.keyboard.press("j")
    wave = page.get_by_role("button", name="databases")
    expect(wave).to_be_focused()
    page.keyboard.press("Enter")
    expect(wave).to_have_attribute("aria-expanded", "false")
    expect(page.locator("code", has_text="s-db-users")).to_have_count(0)
    page.keyboard.press("l")
    expect(page.locator(".log-row", has_text="server_transition").first).to_be_visible()
    page.get_by_role("link", name="Board").click()
    expect(page).to_have_url(re.compile(r"/executions/plan-east%2Fx-running$"))
    expect(page.locator(".item").first).to_be_visible()
    page.keyboard.press("u")
    expect(page.locator("a.execution-row").first).to_be_visible()


def test_the_run_of_an_execution_leads_to_its_board_and_failed_servers_are_errors(
    shown: Served, open_page: OpenPage
) -> None:
    page = open_page(f"{shown.url}/runs?kind=execution&q=x-running")

    page.locator("a.run-row").click()
    expect(page).to_have_url(re.compile(r"/executions/plan-east%2Fx-running$"))
    page.get_by_role("link", name="Log").click()
    expect(page.locator(".log-row", has_text="execution_started")).to_be_visible()
    assert page.get_by_role("tab").all_inner_texts()[0].startswith("Log")
    expect(page.get_by_role("tab")).to_have_count(1)
    page.keyboard.press("e")

    expect(page.locator(".log-row")).to_have_count(1)
    expect(page.locator(".log-row")).to_contain_text("s-db-audit")


def test_no_field_of_an_execution_becomes_markup(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    board = Board(tmp_path / "hostile.db")
    waves = (Stage(ATTACK, (Job(ATTACK, region=ATTACK, account=ATTACK),), (f"expected {ATTACK}",)),)
    drill = board.watched(
        ID, plan_id=ATTACK, name=ATTACK, source=ATTACK, stages=waves, total_stages=2, lease_holder=ATTACK
    )
    lost = action(ATTACK, StepState.FAILED, ATTACK)
    server = WorkItem(ATTACK, FAILED, ATTACK, (lost,), ATTACK, ATTACK)
    other = WorkItem(f"other {ATTACK}", GOING, ATTACK, (), ATTACK, ATTACK)
    drill.receive(Job(ATTACK, JobState.STARTED, (server, other), source_status=ATTACK))
    drill.change(failures=5, last_error=ATTACK, lease_holder=ATTACK, lease_until=drill.now.started_at + 10**9)
    served = serve(tmp_path / "hostile.db")

    page = open_page(f"{served.url}/executions", quiet=False)  # the server refuses a mode that is none
    expect(page.locator("a.execution-row")).to_contain_text(ATTACKS[0])
    unharmed(page)
    page.locator("a.execution-row").click()
    expect(page.locator("h1")).to_contain_text(ATTACKS[0])
    expect(page.locator(".item-reason").first).to_contain_text(ATTACKS[1])
    expect(page.get_by_label("Polling")).to_contain_text(ATTACKS[0])
    unharmed(page)

    evidence = (Evidence(ATTACK, drill.now.started_at, {ATTACK: [ATTACK, {ATTACK: ATTACK}]}),)
    drill.change(
        verdict=Verdict(Status.FAILED, drill.now.started_at, evidence, ATTACK, warnings=(ATTACK,)),
        closed=True,
    )
    expect(page.get_by_label("Verdict")).to_contain_text(ATTACKS[0])
    expect(page.get_by_label("Evidence")).to_contain_text(ATTACKS[0])
    unharmed(page)
    page.goto(f"{served.url}/executions?text={quote(ATTACK)}&mode={quote(ATTACK)}&source={quote(ATTACK)}")
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    unharmed(page)
    board.close()


def test_hundreds_of_servers_are_shown_and_waves_that_went_well_are_folded(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    board = Board(tmp_path / "many.db")
    drill = board.watched("x-many", "good", "going")
    many = [LAUNCHED] * 150
    drill.receive(wave_job(0, *many, state=DONE), wave_job(1, *[GOING] * 200))
    served = serve(tmp_path / "many.db")

    page = open_page(f"{served.url}/executions/x-many")

    expect(page.get_by_role("button", name="good")).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".item")).to_have_count(200)
    page.get_by_role("button", name="good").click()
    expect(page.locator(".item")).to_have_count(350)
    board.close()


def test_an_imported_execution_leads_to_its_run_and_to_no_board(
    board: Board, tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    run_id = "plan-east/x-partial"
    with SqliteJournal(board.path) as written, SqliteJournal(tmp_path / "imported.db") as imported:
        imported.append(written.read(run_id, limit=1_000).events)
    served = serve(tmp_path / "imported.db")

    page = open_page(f"{served.url}/runs", quiet=False)  # Chromium reports the 404 of the missing record
    with page.expect_response(lambda response: "/api/executions/" in response.url):
        page.locator(f'a[href*="{quote(run_id, safe="")}"]').first.click()

    expect(page.get_by_role("option", name="execution_ended s-db-b")).to_be_visible()
    expect(page.get_by_role("link", name="Board", exact=True)).to_have_count(0)
    page.goto(f"{served.url}/executions/{quote(run_id, safe='')}")
    expect(page).to_have_url(re.compile(rf"/runs/{quote(run_id, safe='')}"))
    expect(page.get_by_role("option", name="execution_ended s-db-b")).to_be_visible()
