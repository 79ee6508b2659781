from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from longwatch.errors import InvalidSettings
from longwatch.settings import DEFAULT_TABLE, SETTINGS, Settings, load_settings

HOME = {"HOME": "/home/ada", "XDG_DATA_HOME": "/home/ada/data"}


def loaded(directory: Path, **environment: str) -> Settings:
    return load_settings(directory=directory, environment={**HOME, **environment})


def mistakes(directory: Path, **environment: str) -> tuple[str, ...]:
    with pytest.raises(InvalidSettings) as caught:
        loaded(directory, **environment)
    return caught.value.mistakes


def write(directory: Path, text: str) -> Path:
    file = directory / "longwatch.toml"
    file.write_text(text, encoding="utf-8")
    return file


def agentify(directory: Path, document: object) -> Path:
    file = directory / ".agentify" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_without_any_settings_the_defaults_apply(tmp_path: Path) -> None:
    settings = loaded(tmp_path, LONGWATCH_DATA="/data")

    assert settings.journal == "sqlite:////data/longwatch.db"
    assert settings.outbox_path == Path("/data/outbox.db")
    assert settings.table_name == DEFAULT_TABLE == "agentify-workflow-events"
    assert settings.capture == "summary"
    assert settings.file is None
    assert set(settings.origins.values()) == {"default"}


def test_the_environment_beats_the_file_and_the_file_beats_the_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[recording]\ncapture = "full"\nqueue_events = 500\n')

    settings = loaded(tmp_path, LONGWATCH_CAPTURE="off")

    assert (settings.capture, settings.queue_events) == ("off", 500)
    assert settings.origins["recording.capture"] == "LONGWATCH_CAPTURE"
    assert settings.origins["recording.queue_events"] == str(file)
    assert settings.origins["recording.enabled"] == "default"


def test_an_empty_variable_is_not_a_setting(tmp_path: Path) -> None:
    assert loaded(tmp_path, LONGWATCH_CAPTURE="").capture == "summary"


def test_the_file_is_found_from_a_folder_below(tmp_path: Path) -> None:
    file = write(tmp_path, 'journal = "memory://"')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    settings = loaded(below)

    assert (settings.journal, settings.file) == ("memory://", file)


def test_a_relative_path_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'journal = "sqlite:///events/my%20runs.db"\n[recording]\noutbox = "out.db"\n')
    below = tmp_path / "below"
    below.mkdir()

    settings = loaded(below)

    assert settings.journal == f"sqlite:///{tmp_path}/events/my%20runs.db"
    assert settings.outbox_path == tmp_path / "out.db"


def test_a_relative_path_in_the_environment_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    write(tmp_path, "")
    below = tmp_path / "below"
    below.mkdir()

    settings = loaded(below, LONGWATCH_JOURNAL="sqlite:///here.db", LONGWATCH_OUTBOX="out.db")

    assert settings.journal == f"sqlite:///{below}/here.db"
    assert settings.outbox_path == below / "out.db"


@pytest.mark.parametrize("url", ["sqlite:////var/j.db", "sqlite:///~/j.db", "memory://", "dynamodb://t"])
def test_a_url_that_means_the_same_everywhere_stays_unchanged(tmp_path: Path, url: str) -> None:
    assert loaded(tmp_path, LONGWATCH_JOURNAL=url).journal == url


def test_a_home_with_unusual_characters_makes_a_valid_url(tmp_path: Path) -> None:
    settings = loaded(tmp_path, LONGWATCH_DATA="/home/100%?#")

    assert settings.journal == "sqlite:////home/100%25%3F%23/longwatch.db"


def test_a_file_can_be_named_and_must_then_exist(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text('journal = "memory://"', encoding="utf-8")

    assert loaded(tmp_path, LONGWATCH_CONFIG=str(file)).journal == "memory://"
    assert mistakes(tmp_path, LONGWATCH_CONFIG="lost.toml") == (
        "LONGWATCH_CONFIG is 'lost.toml', which is not a file",
    )


def test_table_and_region_come_from_the_file(tmp_path: Path) -> None:
    write(tmp_path, '[infrastructure.dynamodb]\ntable_name = "events"\nregion = "eu-west-1"\n')

    settings = loaded(tmp_path)

    assert (settings.table_name, settings.region) == ("events", "eu-west-1")


def test_an_existing_agentify_project_gives_its_table(tmp_path: Path) -> None:
    file = agentify(
        tmp_path, {"infrastructure": {"dynamodb": {"tableName": "theirs", "region": "us-east-1"}}}
    )

    settings = loaded(tmp_path)

    assert (settings.table_name, settings.region) == ("theirs", "us-east-1")
    assert settings.origins["infrastructure.dynamodb.table_name"] == str(file)


def test_our_own_file_beats_the_agentify_project(tmp_path: Path) -> None:
    agentify(tmp_path, {"infrastructure": {"dynamodb": {"tableName": "theirs"}}})
    write(tmp_path, '[infrastructure.dynamodb]\ntable_name = "ours"\n')

    assert loaded(tmp_path).table_name == "ours"


@pytest.mark.parametrize("document", [{}, [], {"infrastructure": None}, {"infrastructure": {"dynamodb": []}}])
def test_an_agentify_file_without_a_table_is_not_a_mistake(tmp_path: Path, document: object) -> None:
    agentify(tmp_path, document)

    assert loaded(tmp_path).table_name == DEFAULT_TABLE


def test_an_agentify_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    file = agentify(tmp_path, {})
    file.write_text("{", encoding="utf-8")

    assert mistakes(tmp_path)[0].startswith(f"{file}: ")


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        'jurnal = "x"\n[recording]\ncapture = "some"\nmax_payload_bytes = 5\nredact_keys = 7\n'
        '[infrastructure.dynamodb]\ntableName = "x"\n',
    )

    found = mistakes(tmp_path, LONGWATCH_ENABLED="maybe", LONGWATCH_TTL_HOURS="nan")

    assert set(found) == {
        f"{file}: recording.capture must be one of off, summary, full, not 'some'",
        f"{file}: recording.max_payload_bytes must be an integer from 1024 to 358400, not 5",
        f"{file}: recording.redact_keys must be a list of names, not 7",
        f"{file}: unknown setting jurnal; did you mean journal?",
        f"{file}: unknown setting infrastructure.dynamodb.tableName; "
        "did you mean infrastructure.dynamodb.table_name?",
        "LONGWATCH_ENABLED: recording.enabled must be true or false, not 'maybe'",
        "LONGWATCH_TTL_HOURS: recording.ttl_hours must be a number of hours, 0 for never, not 'nan'",
    }


def test_a_file_that_is_not_toml_is_reported_with_the_line(tmp_path: Path) -> None:
    file = write(tmp_path, "journal = \n")

    assert mistakes(tmp_path)[0].startswith(f"{file}: ")
    assert "line 1" in mistakes(tmp_path)[0]


@pytest.mark.parametrize(
    ("variable", "text", "attribute", "value"),
    [
        ("LONGWATCH_ENABLED", "No", "enabled", False),
        ("LONGWATCH_CARRY_CONTEXT", "1", "carry_context", True),
        ("LONGWATCH_LEARNED_CADENCE", "on", "learned_cadence", True),
        ("LONGWATCH_REDACT_KEYS", "pin, iban,", "redact_keys", ("pin", "iban")),
        ("LONGWATCH_TTL_HOURS", "1.5", "ttl_hours", 1.5),
        ("LONGWATCH_TTL_HOURS", "0", "ttl_hours", 0.0),
        ("LONGWATCH_QUEUE_EVENTS", "1000", "queue_events", 1000),
        ("LONGWATCH_LAYOUT", "session", "layout", "session"),
        ("LONGWATCH_FAST_QUERY", "off", "fast_query", False),
    ],
)
def test_a_variable_is_read_as_what_it_means(
    tmp_path: Path, variable: str, text: str, attribute: str, value: object
) -> None:
    assert getattr(loaded(tmp_path, **{variable: text}), attribute) == value


def test_a_missing_working_directory_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert load_settings(environment=HOME).file is None


def test_every_setting_is_an_attribute_with_the_same_default() -> None:
    made = Settings(journal="memory://")

    for setting in SETTINGS:
        if setting.key != "journal":
            assert getattr(made, setting.attribute) == setting.default


def test_every_setting_has_a_name_a_variable_and_a_meaning_of_its_own() -> None:
    for attribute in ("key", "attribute", "variable", "about"):
        assert len({getattr(setting, attribute) for setting in SETTINGS}) == len(SETTINGS)


def test_prices_are_read_by_model(tmp_path: Path) -> None:
    write(tmp_path, '[prices."gpt-4o"]\ninput = 2.5\noutput = 10\n[prices."a/b.c"]\ncache_read = 1\n')

    prices = loaded(tmp_path).prices

    assert {name: (price.input, price.cache_read) for name, price in prices.items()} == {
        "gpt-4o": (Decimal("2.5"), None),
        "a/b.c": (None, 1),
    }


def test_mistakes_in_prices_are_reported_with_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, '[prices]\n"gpt-4o" = 3\n"m" = { input = -1 }\n')

    found = mistakes(tmp_path)

    assert found[0].startswith(f"{file}: invalid price of 'gpt-4o'")
    assert found[1] == f"{file}: price of 'm': input must not be negative, but is -1"
