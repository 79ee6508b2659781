"""The timeline of a long run: follow mode, rows of the visible time, jumps, folded repeats, marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from longwatch.journal.sqlite import SqliteJournal
from tests.browser.conftest import DESKTOP, PHONE, OpenPage
from tests.browser.server_process import Served
from tests.browser.stories import now_ms
from tests.browser.test_views import serious, sideways, turn_light
from tests.unit.cli.samples import Story

SEARCHES = 40


def long_run(run_id: str, *, at: int, ends: bool = True) -> Story:
    """Two minutes: forty searches, two of which fail, a wait, an idle time, and a third try."""
    story = Story(run_id, at=at)
    story.add("workflow_start", {"kind": "workflow", "name": "long run"})
    story.add("agent_start", {"status": "started"}, agent="reader", call="a1")
    for number in range(SEARCHES):
        fails = number in (10, 30)
        call = f"s{number}"
        story.add(
            "tool_call", {"operation": "search", "status": "started"}, agent="reader", call=call, parent="a1"
        )
        outcome = (
            {"status": "failed", "error_message": f"Timeout: page {number}"}
            if fails
            else {"status": "completed"}
        )
        ended = {"operation": "search", "duration_ms": 1000, **outcome}
        story.add("tool_call", ended, after=1000, agent="reader", call=call, parent="a1")
    wait = {"reason": "approval", "detail": "publish"}
    story.add("waiting_started", wait, call="w1", parent="a1")
    story.add("waiting_ended", {**wait, "duration_ms": 20_000}, after=20_000, call="w1", parent="a1")
    story.add("agent_end", {"status": "completed"}, after=15_000, agent="reader", call="a1")
    story.add("agent_start", {"status": "started"}, agent="writer", call="a2")
    for number, status in enumerate(("failed", "failed", "completed")):
        call = f"p{number}"
        error = {"error_message": "refused"} if status == "failed" else {}
        story.add(
            "tool_call", {"operation": "publish", "status": "started"}, agent="writer", call=call, parent="a2"
        )
        done = {"operation": "publish", "status": status, "duration_ms": 5000, **error}
        story.add("tool_call", done, after=5000, agent="writer", call=call, parent="a2")
    if ends:
        story.add("agent_end", {"status": "completed"}, agent="writer", call="a2")
        story.add("tool_call", {"operation": "cleanup", "status": "started"}, after=10, call="z")
        story.add("workflow_complete", {"status": "completed"}, after=20_000)
    return story


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with SqliteJournal(folder / "runs.db") as journal:
        journal.append(long_run("wf-long", at=now_ms() - 600_000).events)
        journal.append(long_run("wf-open", at=now_ms() - 92_000, ends=False).events)
        journal.append(nested_run(40).events)
    served = Served(folder / "runs.db")
    served.start()
    yield served
    served.kill()


def opened(open_page: OpenPage, served: Served, path: str, **how: int) -> Page:
    page = open_page(f"{served.url}/runs/{path}", **how)
    expect(page.locator(".fact-caught-up")).to_have_text("caught up")
    return page


def rows(page: Page) -> list[str]:
    """The names of the rows, from top to bottom."""
    names = page.locator(".bar-row").evaluate_all(
        "rows => rows.sort((a, b) => a.dataset.index - b.dataset.index)"
        ".map(row => row.querySelector('.bar-name > .cut').textContent)"
    )
    return [str(name) for name in names]


IS_ROW_IN_VIEW = """list => {
    const frame = list.getBoundingClientRect();
    const row = list.querySelector('[aria-selected=true]').getBoundingClientRect();
    return row.top >= frame.top && row.bottom <= frame.bottom;
}"""
WHOLE = ["reader", "search", "approval: publish", "writer", "publish", "publish", "publish", "cleanup"]


def test_repeated_calls_are_one_row_that_opens(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")
    group = page.locator(".bar-row", has_text="search")

    assert rows(page) == WHOLE
    expect(group).to_contain_text("× 40")
    expect(group).to_contain_text("2 failed")
    expect(group).to_contain_text("p50 1.0 s")
    expect(group).to_have_attribute("aria-expanded", "false")
    page.locator(".bars").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".bar-row[aria-level='3']").first).to_contain_text("search")
    page.keyboard.press("Enter")
    expect(page.locator(".bar-row")).to_have_count(len(WHOLE))
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="Fold repeats")).to_have_attribute("aria-pressed", "false")
    expect(group.first).not_to_contain_text("× 40")


def test_zooming_shows_the_rows_of_the_visible_time(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")
    box = page.locator(".overview").bounding_box()
    assert box is not None

    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.70, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.76, y, steps=4)
    page.mouse.up()

    expect(page.locator(".bar-row", has_text="reader")).to_have_count(0)
    assert rows(page)[0] == "writer"
    page.keyboard.press("0")
    expect(page.locator(".bar-row")).to_have_count(len(WHOLE))


def test_jumps_lead_to_each_failure_and_to_the_longest_call(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")
    expect(page.locator(".jump-count")).to_have_text("4 failed")

    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("#call=s10$"))
    expect(page.locator(".jump-count")).to_have_text("1 of 4 failed")
    expect(page.locator(".bar-row[aria-selected=true]")).to_contain_text("search")
    expect(page.locator(".bar-row[aria-selected=true]")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator("lw-detail")).to_be_hidden()
    page.get_by_role("button", name="Next failure").click()
    expect(page).to_have_url(re.compile("#call=s30$"))
    page.get_by_role("button", name="Previous failure").click()
    page.keyboard.press("N")
    expect(page).to_have_url(re.compile("#call=p1$"))
    expect(page.locator(".bar-row[aria-selected=true]")).to_contain_text("try 2")
    page.keyboard.press("l")
    expect(page).to_have_url(re.compile("#call=z$"))
    expect(page.locator(".bar-row[aria-selected=true]")).to_contain_text("abandoned")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("call", ["s2", "s20", "s39"])
def test_a_link_to_a_folded_call_opens_its_group_and_scrolls_to_it(
    served: Served, open_page: OpenPage, call: str, width: int
) -> None:
    page = opened(open_page, served, f"wf-long?tab=timeline#call={call}", width=width)
    row = page.locator(".bar-row[aria-selected=true]")

    expect(row).to_contain_text("search")
    assert page.locator(".bars").evaluate(IS_ROW_IN_VIEW)


def test_a_retry_leads_to_its_first_try(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline#call=p2")
    expect(page.locator(".bar-row[aria-selected=true] .retry")).to_have_text("try 3")
    expect(page.locator(".retry")).to_have_text(["try 2", "try 3"])

    page.keyboard.press("t")

    expect(page).to_have_url(re.compile("#call=p0$"))


def test_errors_only_and_the_search_are_in_the_url_and_unfold(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")

    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("errors=1"))
    expect(page.locator(".bar-row")).to_have_count(6)
    assert rows(page) == ["reader", "search", "search", "writer", "publish", "publish"]
    page.keyboard.press("/")
    page.keyboard.type("timeout 30")
    expect(page).to_have_url(re.compile(r"q=timeout\+30"))
    expect(page.locator(".bar-row")).to_have_count(2)
    expect(page.locator(".bar-row mark")).to_have_text(["Timeout", "30"])
    page.get_by_label("Search calls").fill("nothing like this")
    expect(page.get_by_text("No call matches.")).to_be_visible()
    page.get_by_label("Search calls").fill("")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    expect(page.locator(".bar-row")).to_have_count(len(WHOLE))


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_failed_call_has_its_mark_on_every_screen(served: Served, open_page: OpenPage, width: int) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline", width=width)

    expect(page.locator(".bar-row", has_text="publish").locator(".status.is-failed")).to_have_count(2)
    for mark in page.locator(".bar-row .status.is-failed").all():
        expect(mark).to_be_visible()


def test_rows_collapse_by_level_and_by_agent(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")

    page.keyboard.press("{")
    expect(page.locator(".bar-row")).to_have_count(3)
    assert rows(page) == ["reader", "writer", "cleanup"]
    page.keyboard.press("]")
    expect(page.locator(".bar-row")).to_have_count(len(WHOLE))
    page.get_by_label("Levels").select_option("Close writer")
    expect(page.locator(".bar-row")).to_have_count(5)
    page.get_by_label("Agent", exact=True).select_option("writer")
    expect(page.locator(".bar-row")).to_have_count(1)


def test_idle_time_waiting_time_and_the_critical_path_are_marked(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")

    expect(page.locator(".quiet-times .waiting")).to_have_attribute("title", "waiting 20.0 s")
    expect(page.locator(".quiet-times .idle")).to_have_attribute("title", "idle 15.0 s")
    expect(page.locator(".on-path")).to_have_count(0)
    page.keyboard.press("c")
    expect(page.get_by_role("button", name="Critical path")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".on-path", has_text="cleanup")).to_have_count(1)


def test_a_live_run_is_followed_until_the_user_scrolls(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-open?tab=timeline")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("r")

    def start(*names: str) -> None:
        payloads = [{"operation": name, "status": "started"} for name in names]
        events = [{"type": "tool_call", "call_id": each["operation"], "payload": each} for each in payloads]
        served.post_events("wf-open", *events)

    start(*(f"next-{number}" for number in range(30)))
    expect(page.locator(".bar-row", has_text="next-29")).to_be_in_viewport()
    expect(page.locator(".bar-row", has_text="search")).to_have_count(0)  # before the followed minute
    page.locator(".bars").hover()
    page.mouse.wheel(0, -300)
    expect(follow).to_have_attribute("aria-pressed", "false")
    start(*(f"last-{number}" for number in range(12)))
    expect(page.locator(".timeline-text")).to_contain_text("88 calls")
    expect(page.locator(".bar-row", has_text="last-11")).not_to_be_in_viewport()
    page.keyboard.press("G")
    expect(follow).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".bar-row", has_text="last-11")).to_be_in_viewport()
    page.keyboard.press("+")
    expect(follow).to_have_attribute("aria-pressed", "false")
    follow.click()
    expect(follow).to_have_attribute("aria-pressed", "true")


def test_a_wheel_or_a_selection_stops_following_although_every_row_is_visible(
    served: Served, open_page: OpenPage
) -> None:
    started = {"operation": "walk", "status": "started"}
    calls = [f"w{number}" for number in range(5)]
    for payload in (started, {**started, "status": "completed"}):
        events = [{"type": "tool_call", "call_id": call, "payload": payload} for call in calls]
        served.post_events("wf-short", *events)
    page = opened(open_page, served, "wf-short?tab=timeline")
    follow = page.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")

    page.locator(".bars").hover()
    page.mouse.wheel(0, -100)
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("G")
    expect(follow).to_have_attribute("aria-pressed", "true")
    page.locator(".bar-row", has_text="× 5").click()

    expect(follow).to_have_attribute("aria-pressed", "false")


def test_following_resumes_from_the_beginning_of_a_run(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-open?tab=timeline")
    follow = page.get_by_role("button", name="Follow")
    page.keyboard.press("r")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("#call=s10$"))
    expect(follow).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Escape")
    expect(page.locator("lw-detail")).to_be_hidden()

    page.keyboard.press("G")

    expect(page.locator(".bar-row", has_text="search")).to_have_count(0)
    expect(follow).to_have_attribute("aria-pressed", "true")


NARROW = 768


def test_a_closed_row_states_how_many_calls_below_it_failed(served: Served, open_page: OpenPage) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline")
    expect(page.locator(".failed-below")).to_have_count(0)

    page.keyboard.press("{")

    below = page.locator(".failed-below")
    expect(below).to_have_text(["2 failed below", "2 failed below"])
    page.set_viewport_size({"width": NARROW, "height": 800})
    assert below.first.evaluate("mark => mark.getBoundingClientRect().width") < 40  # the number alone


def test_names_are_readable_beside_the_details_and_on_a_tablet(served: Served, open_page: OpenPage) -> None:
    wide = opened(open_page, served, "wf-long?tab=timeline#call=p2")
    narrow = opened(open_page, served, "wf-long?tab=timeline", width=NARROW)

    for page in (wide, narrow):
        name = page.locator(".bar-row", has_text="× 40").locator(".bar-name > .cut")
        expect(name).to_have_text("search")
        assert name.evaluate("name => name.scrollWidth <= name.clientWidth")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_axe_finds_nothing_and_no_label_of_the_axis_is_cut_off(
    served: Served, open_page: OpenPage, width: int
) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline", width=width)
    expect(page.locator(".bar-row").first).to_be_visible()

    assert sideways(page) == 0
    assert serious(page) == []
    turn_light(page)
    assert serious(page) == []
    for key in ("+", "+", "ArrowRight", "+", "+", "+", "ArrowRight"):
        page.keyboard.press(key)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        cut = page.locator(".axis").evaluate(
            """axis => [...axis.querySelectorAll('time')].filter((label) => {
                const [all, one] = [axis.getBoundingClientRect(), label.getBoundingClientRect()];
                return one.left < all.left - 1 || one.right > all.right + 1;
            }).map((label) => label.textContent)"""
        )
        assert cut == []


def test_the_active_row_stays_drawn_while_the_visible_time_changes(
    served: Served, open_page: OpenPage
) -> None:
    page = opened(open_page, served, "wf-long?tab=timeline#call=p2")
    expect(page.locator(".bars")).to_have_attribute("aria-activedescendant", re.compile("window-"))

    missing = page.evaluate(
        """async () => {
            const list = document.querySelector(".bars");
            document.querySelector('[aria-label^="Zoom in"]').click();
            const missing = [];
            for (let frame = 0; frame < 5; frame += 1) {
                await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
                const id = list.getAttribute("aria-activedescendant");
                if (!document.getElementById(id)) missing.push(`frame ${frame}: ${id}`);
            }
            return missing;
        }"""
    )

    assert missing == []


def test_the_report_has_the_same_timeline(served: Served, open_page: OpenPage, tmp_path: Path) -> None:
    page = opened(open_page, served, "wf-long")
    with page.expect_download() as saved:
        page.get_by_role("link", name="HTML").click()
    saved.value.save_as(tmp_path / "report.html")

    report = open_page(f"file://{tmp_path}/report.html?tab=timeline")

    expect(report.locator(".bar-row")).to_have_count(len(WHOLE))
    report.keyboard.press("n")
    expect(report.locator("lw-detail")).to_contain_text("Timeout: page 10")


def nested_run(levels: int) -> Story:
    """Agents that call each other, one in another."""
    story = Story("wf-nested", at=now_ms() - 60_000)
    story.add("workflow_start", {"kind": "workflow", "name": "nested"})
    for level in range(levels):
        caller = f"n{level - 1}" if level else None
        story.add("agent_start", after=10, agent=f"level{level}", call=f"n{level}", parent=caller)
    story.add("workflow_complete", {"status": "completed"}, after=10)
    return story


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_axis_has_times_besides_the_start(served: Served, open_page: OpenPage, width: int) -> None:
    page = opened(open_page, served, "wf-nested?tab=timeline", width=width)

    expect(page.locator(".axis > span").nth(1)).to_have_text(re.compile(r"\d+ ms"))


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_rows_of_a_deep_tree_keep_their_names(served: Served, open_page: OpenPage, width: int) -> None:
    page = opened(open_page, served, "wf-nested?tab=timeline", width=width)
    page.locator(".bars").focus()

    page.keyboard.press("End")

    last = page.locator(".bar-row[aria-level='40']")
    expect(last).to_contain_text("39›")
    box = last.locator(".bar-name > .cut").bounding_box()
    column = last.locator(".bar-name").bounding_box()
    assert box is not None
    assert column is not None
    assert box["width"] >= 20
    assert box["x"] + box["width"] <= column["x"] + column["width"]
