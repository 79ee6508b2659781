"""Secrets never reach a journal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.recording.redaction import (
    _SHAPES,
    REDACTED,
    SecretNames,
    may_hold_secret,
    redact,
    redact_text,
)

TOKENS = {
    "AWS access key": "AKIAIOSFODNN7EXAMPLE",
    "AWS temporary key": "ASIAIOSFODNN7EXAMPLE",
    "GitHub": "ghp_" + "a1B2c3D4e5" * 4,
    "GitHub app": "ghs_" + "a1B2c3D4e5" * 4,
    "GitHub fine-grained": "github_pat_" + "11ABCDE_" * 5,
    "GitLab": "glpat-" + "abc_DEF-123" * 2,
    "OpenAI": "sk-proj-" + "abcDEF123_-" * 4,
    "Anthropic": "sk-ant-api03-" + "abcDEF123_-" * 8,
    "Stripe": "sk_live_" + "abcdef123456" * 2,
    "Stripe restricted": "rk_live_" + "abcdef123456" * 2,
    "Slack": "xoxb-123456789012-abcdefABCDEF",
    "Google": "AIza" + "abcDEF123_-" * 3 + "xy",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("around", ["{}", "key={} ", 'say "{}"', "a {}, b", "\n{}\n", "ü {}!"])
def test_a_token_is_blanked_by_its_shape(token: str, around: str) -> None:
    text = around.replace("{}", token)

    assert token not in redact_text(text)
    assert REDACTED in redact_text(text)
    assert may_hold_secret(text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abcdefghij0123456789==", f"Authorization: Bearer {REDACTED}"),
        ("bearer abcdefghij0123456789.x", f"bearer {REDACTED}"),
        ("postgres://ann:s3cret@db.example/x", f"postgres://{REDACTED}@db.example/x"),
        ("redis://:s3cret@cache:6379/0", f"redis://{REDACTED}@cache:6379/0"),
        ("https://u:p@ss@host/x", f"https://{REDACTED}@host/x"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "aws_secret_access_key[redacted]",
        ),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- end", f"{REDACTED} end"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", REDACTED),
    ],
)
def test_secrets_inside_other_text_are_blanked(text: str, clean: str) -> None:
    assert redact_text(text) == clean
    assert may_hold_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/path?x=1",
        "mail ann@example.com at 10:30",
        "a risk-free task-oriented desk-job",
        "the bearer of news",
        "through the highest lighthouse",
        "AKIA is a prefix",
        "see http://host:8080/x and ann@example.com",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "db_password",
        "userPassword",
        "passwd",
        "passphrase",
        "secret",
        "client_secret",
        "clientSecret",
        "token",
        "access_token",
        "aws_session_token",
        "X-Api-Key",
        "apiKey",
        "api key",
        "Authorization",
        "Proxy-Authorization",
        "Cookie",
        "set-cookie",
        "cookies",
        "credentials",
        "private_key",
        "aws_access_key_id",
        "aws_secret_access_key",
    ],
)
def test_a_telling_name_marks_a_secret(name: str) -> None:
    assert name in SecretNames()


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "token_count",
        "next_token",
        "NextToken",
        "nextPageToken",
        "total_tokens",
        "tokens",
        "tokenizer",
        "key",
        "author",
        "secretary",
        "task_token",
        "password_changed_at",
        7,
        None,
    ],
)
def test_other_names_are_left_alone(name: object) -> None:
    assert name not in SecretNames()


def test_further_names_can_be_given_in_any_spelling() -> None:
    names = SecretNames(("IBAN", "date-of-birth"))

    assert "iban" in names
    assert "dateOfBirth" in names
    assert "date" not in names


def test_names_that_come_from_data_are_not_remembered_without_end() -> None:
    names = SecretNames()

    for n in range(20_000):
        assert f"name{n}" not in names

    assert len(names._known) <= 10_000


def test_every_text_inside_a_value_is_looked_at() -> None:
    key = TOKENS["AWS access key"]

    clean = redact({"a": [key, (key, 1)], key: {key}, "n": 1, "b": b"x"})

    assert clean == {"a": [REDACTED, [REDACTED, 1]], REDACTED: {REDACTED}, "n": 1, "b": b"x"}


@given(st.text(), st.sampled_from(sorted(TOKENS.values())), st.text())
def test_the_quick_look_never_misses_what_the_close_look_finds(before: str, token: str, after: str) -> None:
    text = before + token + after

    if redact_text(text) != text:
        assert may_hold_secret(text)


def test_the_quick_look_knows_every_shape() -> None:
    for hint, _ in _SHAPES:
        samples = [text for text in (*TOKENS.values(), *EXAMPLES) if hint in text]
        assert samples, f"no example for {hint}"
        assert all(map(may_hold_secret, samples))


EXAMPLES = (
    "Bearer abcdefghij0123456789",
    "redis://:s3cret@cache",
    "-----BEGIN PRIVATE KEY-----",
    "aws_secret_access_key",
    "AWS_SECRET_ACCESS_KEY",
)
