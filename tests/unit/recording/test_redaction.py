"""Secrets never reach a journal."""

from __future__ import annotations

import re
import time

import pytest
from benchmarks.redaction import rates
from hypothesis import given
from hypothesis import strategies as st

from longwatch.journal.codec import encode_payload
from longwatch.recording.redaction import PREFIXED, may_hold_secret, redact, redact_text
from longwatch.recording.secret_names import _SECRET_ENDINGS, _SECRET_WORDS, NAME_HINTS, REDACTED, SecretNames

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
    "Discord": "MTE" + "a1B2c3D4e5" * 2 + "xyz" + ".GxAb1c." + "a1B2c3D4e5" * 3,
    "Dropbox": "sl." + "abcDEF123_-" * 12,
    "Facebook": "EAA" + "a1B2c3D4e5" * 15,
    "Square": "sq0atp-" + "abcDEF123_-" * 2,
    "Square access token": "EAAA" + "a1B2c3D4e5" * 6,
    "Airtable": "patAb1Cd2Ef3Gh4Ij." + "0123456789abcdef" * 4,
    "Mapbox": "sk.eyJ1" + "a1B2c3D4e5" * 6 + ".a1B2c3D4e5a1B2c3D4e5xy",
    "Vercel": "vcp_" + "a1B2c3D4e5" * 5,
    "Cloudflare": "cfut_" + "a1B2c3D4e5" * 5,
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
            "aws_secret_access_key = [redacted]",
        ),
        (
            "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "AWS_SECRET_ACCESS_KEY=[redacted]",
        ),
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
        "api_key_openai",
        "PASSWORD_DB",
        "token_github",
        "wifi_psk",
        "APP_KEY",
        "Proxy-Authorization",
        "Cookie",
        "set-cookie",
        "cookies",
        "credentials",
        "private_key",
        "aws_access_key_id",
        "aws_secret_access_key",
        *("pwd", "db_pwd", "pass", "smtpPass", "passcode", "pin", "cardPin", "otp", "totp_secret"),
        *("SENTRY_DSN",),
        *("connectionString", "database_url", "DATABASE_URL_STAGING", "REDIS_URL", "auth", "basicAuth"),
        *("session_id",),
        *("webhook", "webhookUrls", "slack_webhook", "password2", "password_prod", "api_keys"),
        *("refreshTokens",),
        *("passwords", "SECRET_KEY_BASE", "privateKeyPem", "creds", "jwt", "pinCode", "otp_code"),
    ],
)
def test_a_revealing_name_marks_a_secret(name: str) -> None:
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
        *("authors", "pinned", "spin", "passed", "bypass", "compass", "keyboard", "session", "session_title"),
        *("secret_name", "auth_method", "cookie_count", "primary_key", "webhook_id", "client_token"),
        *("max_token",),
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

    assert len(names._decisions) <= 10_000


def test_every_text_inside_a_value_is_checked() -> None:
    key = TOKENS["AWS access key"]

    clean = redact({"a": [key, (key, 1)], key: {key}, "n": 1, "b": b"x"})

    assert clean == {"a": [REDACTED, [REDACTED, 1]], REDACTED: {REDACTED}, "n": 1, "b": b"x"}


@given(st.text(), st.sampled_from(sorted(TOKENS.values())), st.text())
def test_the_quick_check_never_misses_what_the_full_check_finds(before: str, token: str, after: str) -> None:
    text = before + token + after

    if redact_text(text) != text:
        assert may_hold_secret(text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[redacted] psql"),
        ("run --password hunter2 --all", "run --password [redacted] --all"),
        ("sshpass -p hunter2 ssh host", "sshpass -p [redacted] ssh host"),
        ("sshpass -p 'hunter 2' ssh host", "sshpass -p [redacted] ssh host"),
        ("mysql -u root -p'hunter2' shop", "mysql -u root -p[redacted] shop"),
        ("docker login -u ann -p hunter2 host", "docker login -u ann -p [redacted] host"),
        ("redis-cli -h host -a hunter2 ping", "redis-cli -h host -a [redacted] ping"),
        ("os.environ['API_KEY'] = 'hunter2'", "os.environ['API_KEY'] = '[redacted]'"),
        ("next=%2Fx%3Ftoken%3Dhunter2", "next=%2Fx%3Ftoken%3D[redacted]"),
        ("%7B%22password%22%3A%22hunter2%22%7D", "%7B%22password%22%3A%22[redacted]"),
        ("curl -u ann:hunter2 https://host/", "curl -u ann:[redacted] https://host/"),
        ('{"user": "ann", "password": "hunter2"}', '{"user": "ann", "password": "[redacted]"}'),
        ('{"log": "token=hunter2"}', '{"log": "token=[redacted]"}'),
        (r"{\"api_key\":\"hunter2\"}", r"{\"api_key\":\"[redacted]\"}"),
        ("{'secret': b'hunter2'}", "{'secret': b'[redacted]'}"),
        ('password="hunter2', 'password="[redacted]"'),
        ("user: ann\npassword: hunter2\nport: 1", "user: ann\npassword: [redacted]\nport: 1"),
        ("password: |\n  hunter2\nport: 1", "password: [redacted]\nport: 1"),
        ("- name: DB_PASSWORD\n  value: hunter2", "- name: DB_PASSWORD\n  value: [redacted]"),
        ("Server=db;Password=hunter2;Database=x", "Server=db;Password=[redacted];Database=x"),
        ("https://host/?page=2&access_token=hunter2#x", "https://host/?page=2&access_token=[redacted]"),
        ("https://b/o?X-Amz-Signature=0123456789abcdef&v=2", "https://b/o?X-Amz-Signature=[redacted]&v=2"),
        ("Authorization: Digest username=ann", "Authorization: [redacted]"),
        ("AUTHORIZATION: BASIC x", "AUTHORIZATION: BASIC [redacted]"),
        ("bearer abc", "bearer [redacted]"),
        ("sent basic YW5uOng= twice", "sent basic [redacted] twice"),
        ("Cookie: a=1; b=2", "Cookie: [redacted]"),
        ("<password>hunter2</password>", "<password>[redacted]</password>"),
        ("machine host login ann password hunter2", "machine host login ann password [redacted]"),
        ("The password is hunter2.", "The password is [redacted]."),
        ("your token is abc123 and expires", "your token is [redacted] and expires"),
        ("the password was 'horse', then", "the password was '[redacted]', then"),
        ("CREATE USER ann IDENTIFIED BY 'hunter2'", "CREATE USER ann IDENTIFIED BY [redacted]"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----", REDACTED),
    ],
)
def test_a_text_that_assigns_a_secret_loses_its_value(text: str, clean: str) -> None:
    assert redact_text(text) == clean
    assert may_hold_secret(encode_payload({"text": text}))


@pytest.mark.parametrize(
    "text",
    [
        "password: must contain at least 8 characters",
        "Use --password to set the password.",
        "password = os.environ['DB_PASSWORD']",
        "password=$PASSWORD token=None secret: required",
        "def login(token: str, password: str = None)",
        "SyntaxError: Unexpected token < in JSON at position 0",
        "max_tokens=4096 author=ann pinned=true passed=12 session_id=wf-2026-11-16",
        "Basic plan, bearer token required, the token expired",
        "https://registry:4873/@scope/package",
        "Authorization: see the docs",
        "The password is too short. The token is base64. The token was v2.1.0, and it is 12-character",
        "the password is hashed with SHA256 and the token is 'null'",
        "connection: keep-alive",
    ],
)
def test_text_about_secrets_is_left_alone(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("session_id", "wf-2026-11-16-nightly", False),
        ("session_id", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", False),
        ("session_id", "k3j5h2g8f7d6s5a4p9o8i7u6", True),
        ("auth", "basic", False),
        ("auth", ("ann", "hunter2"), True),
        ("pass", 12, False),
        ("pass", "hunter2", True),
        ("pin", 1234, True),
        ("max_passwords", 3, False),
        ("maxSecrets", 3, False),
        ("max_passwords", "hunter2", True),
        ("has_password", True, False),
        ("password", None, False),
    ],
)
def test_a_name_with_two_meanings_counts_by_its_value(name: str, value: object, hidden: bool) -> None:
    assert SecretNames().hides(name, value) is hidden


def test_an_option_and_its_value_may_be_two_items_of_a_list() -> None:
    assert redact(["psql", "--password", "hunter2", "x"]) == ["psql", "--password", REDACTED, "x"]


def test_every_secret_name_holds_a_hint() -> None:
    for name in (*_SECRET_ENDINGS, *_SECRET_WORDS, "tokens"):
        assert any(hint in name for hint in NAME_HINTS), name


@given(st.sampled_from(PREFIXED), st.data())
def test_every_prefixed_token_has_a_run_that_the_quick_check_finds(
    shape: tuple[str, str], data: st.DataObject
) -> None:
    token = data.draw(st.from_regex(re.compile(shape[1], re.ASCII), fullmatch=True))

    if redact_text(token) != token:
        assert may_hold_secret(encode_payload({"text": token}))


@pytest.mark.parametrize(
    "part", ["://a:", "password=", "mysql -", "name: a ", "Bearer ", "<a>", "\\", "aB3-"]
)
def test_a_long_text_takes_linear_time(part: str) -> None:
    short, long = (_seconds(part * (size // len(part))) for size in (20_000, 160_000))

    assert long < 40 * max(short, 0.005)  # 8 times as long; quadratic time would be 64 times


def _seconds(text: str) -> float:
    started = time.process_time()
    redact_text(text)
    return time.process_time() - started


def test_generated_secrets_are_blanked_and_harmless_values_stay() -> None:
    leaked, secrets, blanked, harmless = rates(each=5)

    assert len(leaked) < 0.02 * secrets, leaked[:5]
    assert len(blanked) < 0.01 * harmless, blanked[:5]


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: the request was rejected by the gateway (401)",
        "Authorization: Bearer " + "q" * 60 + " and more",
        "authorization: " + "is " * 5_000 + "1",
        "password is " + ")" * 20_000 + "=x",
        "token was now: " + ".," * 10_000 + "'",
    ],
)
def test_text_that_is_nearly_a_secret_takes_no_longer_than_other_text(text: str) -> None:
    began = time.process_time()

    redact_text(text)

    assert time.process_time() - began < 2
