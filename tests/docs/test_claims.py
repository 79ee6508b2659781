"""What the pages claim about the code is what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import click

import longwatch
from longwatch.cli.main import COMMANDS, PROGRAM, cli
from longwatch.recording.recorder import Recorder
from longwatch.recording.redaction import PLAIN, PREFIXED
from longwatch.recording.secret_names import SecretNames
from tests.docs.pages import ROOT, all_pages, page
from tests.simulation import bugs as simulation_bugs
from tests.simulation.executions import bugs as execution_bugs

# Not published yet: `pip install longwatch` would install nothing, or a package of another author.
_FROM_AN_INDEX = re.compile(r"pip3? install (?:-\S+ )*['\"]?longwatch|`longwatch\[")


def _texts_for_users() -> list[Path]:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    others = [
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "infrastructure").glob("*.md"),
    ]
    return [page.path for page in all_pages()] + sources + others


def test_no_text_installs_the_package_from_an_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _texts_for_users()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _FROM_AN_INDEX.search(line)
    ]

    assert found == []
    assert "not published" in (ROOT / "README.md").read_text(encoding="utf-8")


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli, info_name=PROGRAM)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {below}", each) for below, each in command.commands.items())
        else:
            yield name, command


def _options(command: click.Command) -> dict[str, click.Parameter]:
    return {name: parameter for parameter in command.params for name in parameter.opts}


def test_every_command_takes_the_options_that_the_reference_names() -> None:
    text = page("reference/cli.md").text
    table = text.partition("Every command takes")[2].partition("`longwatch --version`")[0]
    named = {
        option
        for row in re.findall(r"^\| (`-.*?) \|", table, re.MULTILINE)
        for option in re.findall(r"--\w+", row)
    }

    assert named == {"--journal", "--debug", "--help"}
    lacking = [
        f"{name} {option}"
        for name, command in _commands()
        for option in named - {"--help"}  # click adds it
        if option not in _options(command)
    ]
    assert lacking == []


def test_the_reference_lists_the_commands_that_print_json() -> None:
    text = page("reference/cli.md").text.partition("## JSON")[2].partition("\n<!--")[0]
    documented = {
        name: formats
        for formats, names in re.findall(r"^\| ((?:`|no format).*?) \| (.*) \|$", text, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }

    assert documented == {name: _formats(command) for name, command in _commands()}


def _formats(command: click.Command) -> str:
    output = _options(command).get("-o")
    choices = output.type.choices if output is not None and isinstance(output.type, click.Choice) else ()
    return " and ".join(f"`{each}`" for each in choices if each != "text") or "no format"


# Every hint of the tables in `secret_shapes`, and who issues such tokens.
_ISSUERS: Mapping[str, tuple[str, ...]] = {
    "1Password": ("ops_eyJ",),
    "Anthropic": ("sk-",),
    "Atlassian": ("ATATT3", "ATBB"),
    "AWS": ("AKIA", "ASIA", "ABSK"),
    "Azure": (
        *("AZDO", "JQQJ9", "Q~", "+ASt", "+ABa", "+AMC", "+ASb", "+AEh", "+ARm", "+ACR", "ACDb"),
        *("AzFu", "AzSe", "AzCa"),
    ),
    "Buildkite": ("bkua_",),
    "Databricks": ("dapi",),
    "DigitalOcean": ("_v1_",),
    "Docker": ("dckr_",),
    "Doppler": ("dp.",),
    "Figma": ("figd_",),
    "GitHub": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GitLab": (
        *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-"),
        *("glffct-", "gloas-", "GR1348941"),
    ),
    "Google": ("AIza", "ya29.", "GOCSPX-", "1//0"),
    "Grafana": ("glsa_", "glc_"),
    "Groq": ("gsk_",),
    "Heroku": ("HRKU-",),
    "Hugging Face": ("hf_", "api_org_"),
    "Langfuse": ("sk-",),
    "LangSmith": ("lsv2_",),
    "Linear": ("lin_api_",),
    "Mailchimp": ("-us",),
    "Mailgun": ("key-",),
    "New Relic": ("NRAK-",),
    "Notion": ("ntn_",),
    "npm": ("npm_",),
    "OpenAI": ("sk-",),
    "Perplexity": ("pplx-",),
    "PlanetScale": ("pscale_",),
    "Postman": ("PMAK-",),
    "Pulumi": ("pul-",),
    "PyPI": ("pypi-",),
    "Razorpay": ("rzp_",),
    "Replicate": ("r8_",),
    "RubyGems": ("rubygems_",),
    "SendGrid": ("SG.",),
    "Sentry": ("sntry",),
    "Shopify": ("shpat_", "shpca_", "shppa_", "shpss_", "shptka_"),
    "Slack": ("xox", "xapp-"),
    "Stripe": ("k_live_", "k_test_", "whsec_"),
    "Supabase": ("sbp_",),
    "Tailscale": ("tskey-",),
    "Telegram": (":",),
    "Airtable": ("pat",),
    "Cloudflare": ("cfk_", "cfut_", "cfat_"),
    "Discord": (".",),
    "Dropbox": ("sl.",),
    "Facebook": ("EAA",),
    "Mapbox": ("k.eyJ",),
    "Square": ("sq0", "EAA"),
    "Vercel": ("vca_", "vci_", "vck_", "vcp_", "vcr_"),
    "Terraform": ("atlasv1.",),
    "Twilio": ("SK",),
    "Vault": ("hvs.", "hvb.", "hvr.", "s."),
    "xAI": ("xai-",),
}
# Hints of what the page lists in other lines: age, webhooks, JSON web tokens, URLs and private keys.
_OTHER_HINTS = frozenset(
    {
        *("AGE-SECRET-KEY-1", "hooks.slack.com/", "/webhooks/", "webhook.office.com/"),
        *("eyJ", "://", "PRIVATE KEY", "Private-Lines: "),
    }
)


def test_the_page_lists_exactly_the_services_whose_tokens_are_redacted() -> None:
    text = " ".join(page("how-to/keep-secrets-out.md").text.split())
    listed = re.search(r"- tokens of (.+?), in their prefixed forms", text)
    assert listed is not None

    assert set(re.split(r", | and ", listed[1])) == set(_ISSUERS)
    assert {hint for hint, _ in (*PREFIXED, *PLAIN)} == {
        *_OTHER_HINTS,
        *(hint for hints in _ISSUERS.values() for hint in hints),
    }


def test_the_names_that_the_page_lists_hide_their_values() -> None:
    text = page("how-to/keep-secrets-out.md").text.partition("## Redaction by name")[2].partition("\n## ")[0]
    bullets = "".join(re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE))
    names, secret = SecretNames(), "Zq8Rt2Lm5Xw9Kc3Vb7Np"

    assert [name for name in re.findall(r"`([^`]+)`", bullets) if not names.hides(name, secret)] == []
    visible = [
        "password_changed_at",
        "token_count",
        "secret_name",
        "auth_method",
        "nextToken",
        "pageToken",
        "taskToken",
    ]
    assert [name for name in visible if f"`{name}`" not in text or names.hides(name, secret)] == []
    assert not names.hides("max_tokens", 4096)


def test_every_status_is_in_the_reference_of_python() -> None:
    text = page("reference/python.md").text.partition("### `longwatch.Status`")[2].partition("\n### ")[0]

    assert re.findall(r"`([A-Z]+)`", text) == [status.name for status in longwatch.Status]


def test_flush_does_not_count_events_that_no_journal_takes() -> None:
    text = page("explanation/durability.md").text
    text = text.partition("## What `flush()` guarantees")[2].partition("\n## ")[0]
    with closing(Recorder("memory://claims")) as recorder:
        recorder.record("wf-1", "note", {})
        recorder.record("wf-1", "", {})  # an empty type breaks a rule of every journal

        assert recorder.flush()
        assert recorder.stats().refused == 1
    assert {"dropped", "refused"} <= set(re.findall(r"`(\w+)`", text))


def test_numbers_and_versions_in_pages_are_those_of_the_code() -> None:
    description = {5: "five", 16: "sixteen", 17: "seventeen", 18: "eighteen"}
    simulation = page("explanation/simulation.md").text
    assert f"So {description[len(simulation_bugs.BUGS)]} bugs can be planted" in simulation
    assert f"For executions there are {description[len(execution_bugs.ExecutionBug)]} more" in simulation

    react = json.loads((ROOT / "web/react/package.json").read_text(encoding="utf-8"))
    assert f"longwatch-react-{react['version']}.tgz" in page("how-to/react.md").text

    engine = re.search(
        r"^ministack==(.+)$", (ROOT / "requirements/ministack.in").read_text("utf-8"), re.MULTILINE
    )
    assert engine is not None
    assert f"| MiniStack {engine[1]} |" in page("explanation/engines.md").text

    alarms = (
        (ROOT / "infrastructure/monitoring.yaml").read_text("utf-8").count("Type: AWS::CloudWatch::Alarm")
    )
    assert alarms == 10
    assert "| alarms | ten," in page("how-to/operate-executions.md").text
    assert "| three alarms | ten:" in page("explanation/requirements.md").text
    headings = re.findall(
        r"^## ((?:Execution|StatusIndex)\w+.*)$", page("runbook-executions.md").text, re.MULTILINE
    )
    assert sum(len(heading.split(" and ")) for heading in headings) == alarms
