"""One list of all sources: shipped, of the settings, of packages."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.errors import InvalidInput, InvalidSettings
from longwatch.executions.model import Execution
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import Source, SourceProblem, Starter
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.registry import sources
from longwatch.settings import load_settings

WATCH = '[watches.deploys]\nurl = "https://deploys.example/{id}"\n'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package that offers sources."""
    (tmp_path / "acme_sources.py").write_text(
        "from longwatch.executions.sources.declarations import Declaration, HttpCall, statuses\n"
        "declared = Declaration(name='x', call=HttpCall(url='http://127.0.0.1:9/{id}'), status='state',\n"
        "                       statuses=statuses(succeeded='ok'))\n"
        "from longwatch.executions.responses import SourceResponse\n"
        "class Mine:\n"
        "    name = 'mine'\n"
        "    def poll(self, executions): return {x.key: SourceResponse('x', 5000) for x in executions}\n"
        "    def close(self): pass\n"
        "class Raising(Mine):\n"
        "    def poll(self, executions): raise RuntimeError('oops')\n"
        "    def close(self): raise RuntimeError('oops')\n"
        "class Odd(Mine):\n"
        "    def poll(self, executions): return {x.key: None for x in executions}\n"
        "class ById(Mine):\n"
        "    def poll(self, executions): return {x.execution_id: SourceResponse('x', 5000) for x in "
        "executions}\n"
    )
    info = tmp_path / "acme_sources-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-sources\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[longwatch.sources]\nrollouts = acme_sources:declared\nmine = acme_sources:Mine\n"
        "broken = acme_sources:nothing\nraising = acme_sources:Raising\nodd = acme_sources:Odd\n"
        "byid = acme_sources:ById\n"
        "deploys = acme_sources:declared\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_sources", raising=False)
    return tmp_path


def test_everything_that_is_shipped_is_listed() -> None:
    assert list(sources()) == [
        "drs",
        "step-functions",
        "codebuild",
        "batch",
        "glue",
        "cloudformation",
        "github",
        "gitlab",
        "jenkins",
        "http",
        "process",
    ]


@pytest.mark.parametrize(
    ("target", "name", "what"),
    [
        ("aws:codebuild:demo:7c2d", "codebuild", "demo:7c2d"),
        ("aws:drs:drsjob-1", "drs", "drsjob-1"),
        ("aws:glue:nightly/load/jr_1", "glue", "nightly/load/jr_1"),
        ("https://jobs.example/1", "http", "https://jobs.example/1"),
        ("http://127.0.0.1:80/", "http", "http://127.0.0.1:80/"),
        ("pid:123", "process", "123"),
    ],
)
def test_a_target_on_the_command_line_is_a_source_and_an_id(target: str, name: str, what: str) -> None:
    resolved = sources().resolve(target)

    assert resolved is not None
    assert (resolved[0].name, resolved[1]) == (name, what)


def test_a_run_id_with_a_colon_is_not_a_source() -> None:
    assert sources().resolve("agent:7") is None


def test_an_undeclared_service_is_refused_with_the_declared_ones() -> None:
    with pytest.raises(InvalidInput, match=r"Unknown source in 'aws:lambda:f'. Use one of aws:drs:ID, "):
        sources().resolve("aws:lambda:f")


def test_watches_of_the_settings_are_sources(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text(WATCH)
    registry = sources(load_settings(directory=tmp_path))

    resolved = registry.resolve("deploys:42")

    assert resolved is not None
    assert (resolved[0].origin, resolved[1]) == (str(tmp_path / "longwatch.toml"), "42")
    assert registry["deploys"].name == "deploys"
    registry.close()


def test_mistakes_of_all_watches_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text(
        "[watches.a]\n[watches.b]\nurl = 3\n[watches.codebuild]\n" + WATCH
    )
    settings = load_settings(directory=tmp_path)

    with pytest.raises(InvalidSettings) as caught:
        sources(settings)

    assert {mistake.split()[1] for mistake in caught.value.mistakes} >= {
        "watches.a",
        "watches.b.url",
        "watches.codebuild",
    }


def test_a_ci_system_may_be_declared_otherwise(tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text(WATCH.replace("deploys]", "github]"))

    registry = sources(load_settings(directory=tmp_path))

    assert [each.origin for each in registry.entries if each.name == "github"] == [
        str(tmp_path / "longwatch.toml")
    ]


@pytest.mark.parametrize("name", ["batch", "http", "process", "aws", "pid"])
def test_a_watch_may_not_have_the_name_of_one_that_is_shipped(tmp_path: Path, name: str) -> None:
    (tmp_path / "longwatch.toml").write_text(WATCH.replace("deploys]", f"{name}]"))
    settings = load_settings(directory=tmp_path)

    with pytest.raises(InvalidSettings, match=rf"watches.{name} has the name of a shipped source"):
        sources(settings)


def test_packages_offer_declarations_and_sources(package: Path) -> None:
    registry = sources()

    mine, rollouts = registry["mine"], registry["rollouts"]

    begun = mine_begun(mine)
    assert (begun.execution_id, begun.source, begun.started_at) == ("mine:7", "mine", 5000)
    assert rollouts.name == "rollouts"
    assert {each.origin for each in registry.entries if each.name == "mine"} == {"acme-sources"}


def mine_begun(source: Source) -> Execution:
    assert isinstance(source, Starter)
    begun = source.begin("7")
    assert isinstance(begun, Execution), begun
    return begun


def test_a_package_that_maps_execution_ids_is_a_problem_only_where_two_plans_share_one(package: Path) -> None:
    source = sources()["byid"]
    one = mine_begun(sources()["mine"])
    other = replace(one, plan_id="another")

    alone, both = source.poll([one]), source.poll([one, other])

    assert isinstance(alone[one.key], SourceResponse)
    assert [isinstance(each, SourceProblem) for each in both.values()] == [True, True]


@pytest.mark.parametrize("name", ["broken", "raising", "odd"])
def test_a_package_that_can_not_be_used_is_a_problem_of_its_own_executions_only(
    package: Path, name: str
) -> None:
    source = sources()[name]
    execution = mine_begun(sources()["mine"])
    assert isinstance(source, Starter)

    polled, begun = source.poll([execution])[execution.key], source.begin("7")

    for problem in (polled, begun):
        assert isinstance(problem, SourceProblem)
        assert problem.lasting
        assert f"Source {name!r} of package acme-sources failed" in problem.message
    source.close()


def test_a_package_offers_a_declaration_as_it_is_written(package: Path) -> None:
    source = sources()["rollouts"]
    assert isinstance(source, Starter)

    found = source.begin("7")

    assert isinstance(found, SourceProblem)
    assert "127.0.0.1:9 is unreachable" in found.message
    source.close()


def test_the_users_settings_override_a_package(package: Path, tmp_path: Path) -> None:
    (tmp_path / "longwatch.toml").write_text(WATCH)

    registry = sources(load_settings(directory=tmp_path))

    assert [each.origin for each in registry.entries if each.name == "deploys"] == [
        str(tmp_path / "longwatch.toml")
    ]


def test_the_polling_interval_can_be_set(tmp_path: Path) -> None:
    source = sources(every_seconds=2.0)["batch"]

    assert isinstance(source, DeclaredSource)
    assert (source.declaration.pending_seconds, source.declaration.running_seconds) == (2.0, 2.0)


def test_an_unknown_name_is_not_a_source() -> None:
    assert sources().get("nobody") is None
