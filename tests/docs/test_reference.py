"""The reference names everything there is, and nothing that is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

import longwatch
from longwatch import errors, testing
from longwatch.cli.main import COMMANDS, PROGRAM, cli
from longwatch.integrations.attach import ADAPTERS, Adapter
from longwatch.server.mcp.tools import TOOLS
from longwatch.settings import SETTINGS
from tests.docs import generated, source
from tests.docs.pages import all_pages, page


@pytest.mark.parametrize("part", generated.PARTS)
def test_a_generated_part_is_up_to_date(part: str) -> None:
    text = page(generated.PLACES[part]).text

    assert generated.updated(text, part) == text, "bring it up to date: python -m tests.docs.generated"


def test_every_tool_for_agents_is_in_the_reference_and_no_other() -> None:
    headings = page("reference/mcp.md").headings()

    assert {match[1] for each in headings if (match := re.fullmatch(r"`(\w+)`", each))} == set(TOOLS)


def test_every_public_name_has_a_heading_and_no_heading_names_another() -> None:
    documented = {
        match[1]
        for heading in page("reference/python.md").headings()
        if (match := re.match(r"`longwatch\.(\w+)", heading))
    }

    assert documented == set(longwatch.__all__)


def test_everything_shipped_for_tests_is_in_the_reference() -> None:
    documented = set(page("reference/python.md").code_spans())

    assert set(testing.__all__) - documented == set()


def test_the_table_of_adapters_has_every_adapter_with_its_versions() -> None:
    rows = dict(
        re.findall(r"^\| .+? \| `(\w+)` \| (.+?) \|", page("reference/adapters.md").text, re.MULTILINE)
    )

    assert rows == {adapter.name: _versions(adapter) for adapter in ADAPTERS}


def _versions(adapter: Adapter) -> str:
    """`1.2 up to 2`, or `0.24` if only the last number may differ."""
    numbers = adapter.first_tested.split(".")
    next_minor = ".".join([*numbers[:-1], str(int(numbers[-1]) + 1)])
    is_one_minor = adapter.first_untested == next_minor
    return adapter.first_tested if is_one_minor else f"{adapter.first_tested} up to {adapter.first_untested}"


def test_every_error_class_is_in_the_tree_and_no_other() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.LongwatchError)
    }

    documented = set(re.findall(r"\b[A-Z]\w*[a-z]\w*\b(?=\s{2,}|$)", generated.error_tree(), re.MULTILINE))

    assert documented == classes


def test_every_event_type_is_in_the_reference() -> None:
    documented = set(page("reference/events.md").code_spans())

    assert source.event_types() - documented == set()


def test_the_reference_lists_no_event_type_as_ours_that_the_code_does_not_define() -> None:
    text = page("reference/events.md").text
    ours = text.partition("## Types that longwatch writes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`", ours, re.MULTILINE)

    assert rows
    assert set(rows) - source.texts() == set()


def test_every_variable_is_in_the_reference_and_no_page_names_another() -> None:
    everywhere = {
        name for each in all_pages() for name in re.findall(r"\bLONGWATCH_[A-Z_]*[A-Z]\b", each.text)
    }
    documented = set(re.findall(r"\bLONGWATCH_[A-Z_]*[A-Z]\b", page("reference/settings.md").text))

    assert source.variables() - documented == set()
    assert everywhere - source.variables() == set()


def test_settings_that_pages_name_exist() -> None:
    keys = {setting.key for setting in SETTINGS}
    sections = {key.rpartition(".")[0] for key in keys}
    named = {
        span
        for each in all_pages()
        for span in each.code_spans()
        if re.fullmatch(r"(recording|infrastructure)(\.\w+)+", span)
    }

    assert named - keys - sections == set()


def test_commands_and_options_that_pages_show_exist() -> None:
    wrong = []
    for where, line in _command_lines():
        description = line.split()
        names = [word for word in description[1:] if not word.startswith("-")]
        if len(description) > 1 and description[1].startswith("-"):
            continue  # an option of the group itself
        if not names or not re.fullmatch(r"[a-z]+", names[0]):
            continue
        if names[0] not in COMMANDS:
            wrong.append(f"{where}: {line}")
            continue
        unknown = _options_in(description[2:]) - _options_of(names[0])
        wrong += [f"{where}: {line} ({option})" for option in sorted(unknown)]

    assert wrong == []


def _command_lines() -> Iterator[tuple[str, str]]:
    for each in all_pages():
        for block in each.blocks():
            if block.language in ("console", "sh"):
                for line in block.text.splitlines():
                    for part in re.split(r"[|;]|&&|\$\(", line.removeprefix("$ ")):
                        plain = re.sub(r"^(\w+=(\S+|'[^']*')\s+)+", "", part.strip())
                        if plain.startswith("longwatch "):
                            yield block.where, plain
        for span in each.code_spans():
            if span.startswith("longwatch "):
                yield each.name, span


def _options_in(description: list[str]) -> set[str]:
    if "--" in description:
        description = description[: description.index("--")]
    return {word.partition("=")[0] for word in description if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}


def _options_of(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli, info_name=PROGRAM, help_option_names=["-h", "--help"]), name)
    assert command is not None
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    parts = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    return {
        option
        for part in parts
        for parameter in part.get_params(context)
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"-h", "--help"}


def test_the_runbook_explains_every_message_that_is_logged() -> None:
    runbook = " ".join(page("runbook.md").text.split())

    unexplained = [
        message for message in source.log_messages() if source.longest_fixed_part(message) not in runbook
    ]

    assert unexplained == []


def test_the_runbook_explains_every_kind_of_table_problem() -> None:
    documented = set(page("runbook.md").code_spans())

    assert source.table_problem_kinds() - documented == set()


def test_the_runbook_explains_no_message_that_is_gone() -> None:
    source_text = " ".join(" ".join(source.texts()).split())
    gone = []
    for heading in page("runbook.md").headings():
        for span in re.findall(r"`([^`]+)`", heading):
            gone += [part for part in re.split(r"\s*…\s*", span) if len(part) > 8 and part not in source_text]

    assert gone == []
