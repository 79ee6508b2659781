"""The modules of the page as one script: in order, whole, and refused where that would not be the same."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from longwatch.server.page.bundle import bundle_script, bundle_style
from longwatch.server.page.static_files import Pages


def test_a_script_holds_every_module_after_those_it_needs() -> None:
    script = bundle_script("app/report.js")

    assert script.index("class RunFold") < script.index("class RunModel") < script.index("class RunView")
    assert not re.search(r"^(import|export)\b", script, re.M)


def test_modules_that_need_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.js").write_text('import { two } from "./two.js";\nexport const one = 1;\n')
    (tmp_path / "two.js").write_text('import { one } from "./one.js";\nexport const two = 2;\n')

    with pytest.raises(ValueError, match=r"one\.js imports itself"):
        bundle_script("one.js", folder=tmp_path)


def test_a_module_that_would_end_the_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.js").write_text('export const one = "</script>";\n')

    with pytest.raises(ValueError, match="end a script"):
        bundle_script("one.js", folder=tmp_path)


@pytest.mark.parametrize("line", ["export default 1;", "export let one = 1;", 'export * from "./two.js";'])
def test_a_module_written_otherwise_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "one.js").write_text(f"{line}\n")

    with pytest.raises(ValueError, match="cannot be bundled"):
        bundle_script("one.js", folder=tmp_path)


def test_names_that_are_passed_on_or_changed_reach_every_importer(tmp_path: Path) -> None:
    (tmp_path / "one.js").write_text(
        'import { b as c } from "./two.js";\nimport * as all from "./two.js";\nf(c, all);\n'
    )
    (tmp_path / "two.js").write_text('export { a, b } from "./three.js";\n')
    (tmp_path / "three.js").write_text("export const a = 1;\nexport async function b() {}\n")

    script = bundle_script("one.js", folder=tmp_path)

    assert "return { a, b };" in script
    assert "const { a, b } = $module0;" in script
    assert "const { b: c } = $module1;" in script
    assert "const all = $module1;" in script


def test_styles_stand_one_after_the_other() -> None:
    style = bundle_style(["tokens", "base"])

    assert style.index("--bg:") < style.index("body {")


def test_the_page_is_served_as_one_script_that_is_rebuilt_when_a_part_changes(tmp_path: Path) -> None:
    for part in ("app", "core", "style"):
        (tmp_path / part).mkdir()
    (tmp_path / "app/main.js").write_text('import { one } from "../core/one.js";\nuse(one);\n')
    (tmp_path / "core/one.js").write_text("export const one = 1;\n")
    pages = Pages(tmp_path)
    before = pages.respond("page.js", None)

    (tmp_path / "core/one.js").write_text("export const one = 'another';\n")
    after = pages.respond("page.js", None)

    assert b"const one = 1;" in before.body
    assert b"const one = 'another';" in after.body
    assert before.headers["etag"] != after.headers["etag"]
    assert pages.respond("page.js", after.headers["etag"]).status_code == 304


def test_a_file_of_the_page_is_compressed_for_clients_that_accept_it() -> None:
    whole = Pages().respond("page.js", None)
    small = Pages().respond("page.js", None, gzipped=True)

    assert small.headers["content-encoding"] == "gzip"
    assert gzip.decompress(bytes(small.body)) == whole.body
