"""Names that no column holds, an error of 3 KB and text from right to left stay inside the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from longwatch.journal.sqlite import SqliteJournal
from tests.browser.conftest import DESKTOP, PHONE, OpenPage
from tests.browser.scenes import RTL_NAME, failed_at_length, long_names, right_to_left
from tests.browser.server_process import Served
from tests.browser.test_views import serious, sideways

STORIES = {"long names": long_names(), "long error": failed_at_length(), "right to left": right_to_left()}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path: Path = tmp_path_factory.mktemp("extremes") / "runs.db"
    with SqliteJournal(path) as journal:
        for story in STORIES.values():
            journal.append(story.events)
    served = Served(path)
    served.start()
    yield served
    served.kill()


def test_text_from_right_to_left_is_cut_off_where_it_ends(shown: Served, open_page: OpenPage) -> None:
    page = open_page(f"{shown.url}/runs")
    row = page.locator("a.run-row", has_text=RTL_NAME)

    expect(row.locator(".run-name")).to_have_css("direction", "rtl")
    expect(row.locator(".tag", has_text=RTL_NAME)).to_have_css("direction", "rtl")
    page.goto(f"{shown.url}/runs/{STORIES['right to left'].run_id}")
    expect(page.locator(".log-row .agent .cut").first).to_have_css("direction", "rtl")
    page.keyboard.press("2")
    expect(page.locator(".bar-name > .cut").first).to_have_css("direction", "rtl")


def test_tags_are_whole_or_hidden(shown: Served, open_page: OpenPage) -> None:
    page = open_page(f"{shown.url}/runs")
    row = page.locator("a.run-row", has_text="Compare every invoice")

    tag = row.locator(".tag", has_text="nightly")

    assert tag.evaluate("tag => tag.scrollWidth <= tag.clientWidth")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("story", STORIES)
def test_nothing_leaves_the_window(shown: Served, open_page: OpenPage, story: str, width: int) -> None:
    page = open_page(f"{shown.url}/runs", width=width)
    expect(page.locator("a.run-row")).to_have_count(len(STORIES))
    assert sideways(page) == 0

    page.goto(f"{shown.url}/runs/{STORIES[story].run_id}#call=t1")

    expect(page.locator("lw-detail")).to_be_visible()
    assert sideways(page) == 0
    assert serious(page) == []
    for link in page.locator(".run-buttons a:visible, .run-buttons button:visible").all():
        box = link.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
    for frame in page.locator(".banner:visible, .problem:visible").all():
        box = frame.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
