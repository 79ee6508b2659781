"""Tokens, cookies and codes."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidInput
from longwatch.server.access.tokens import CODE_SECONDS, COOKIE, COOKIE_SECONDS, Access, Tokens, TokenScope
from longwatch.testing import FakeClock

TOKENS = Tokens("write-token-0123456789", "read-token-0123456789")


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


def cookie(value: str) -> list[tuple[bytes, bytes]]:
    return [(b"cookie", f"theme=dark; {COOKIE}={value}; other=1".encode())]


def test_without_tokens_every_client_may_do_everything() -> None:
    access = Access()

    assert access.is_open
    assert access.scope_of([]) is TokenScope.WRITE


def test_each_token_has_its_scope_and_others_have_none() -> None:
    access = Access(TOKENS)

    assert access.scope_of(bearer(TOKENS.write)) is TokenScope.WRITE
    assert access.scope_of(bearer("read-token-0123456789")) is TokenScope.READ
    assert access.scope_of(bearer("")) is None
    assert access.scope_of([]) is None


def test_a_wrong_token_is_not_saved_by_a_good_cookie() -> None:
    access = Access(TOKENS)

    headers = [*bearer("wrong"), *cookie(access.new_cookie(TokenScope.WRITE))]

    assert access.scope_of(headers) is None


def test_a_cookie_holds_for_a_week_on_every_server_with_the_same_tokens() -> None:
    clock = FakeClock()
    value = Access(TOKENS, clock).new_cookie(TokenScope.READ)
    elsewhere = Access(TOKENS, clock)

    assert elsewhere.scope_of(cookie(value)) is TokenScope.READ
    assert Access(Tokens("other-token-0123456789"), clock).scope_of(cookie(value)) is None
    clock.sleep(COOKIE_SECONDS + 1)
    assert elsewhere.scope_of(cookie(value)) is None


@pytest.mark.parametrize("change", ["write", "0", "", "é"])
def test_a_cookie_that_was_changed_is_refused(change: str) -> None:
    access = Access(TOKENS)
    claims, _, signature = access.new_cookie(TokenScope.READ).rpartition(".")

    assert (
        access.scope_of([(b"cookie", f"{COOKIE}={claims.replace('read', 'write')}.{signature}".encode())])
        is None
    )
    assert access.scope_of([(b"cookie", f"{COOKIE}={claims}.{signature[:-1]}{change}x".encode())]) is None
    assert access.scope_of([(b"cookie", f"{COOKIE}={change}".encode())]) is None


def test_a_code_is_good_once_and_not_for_long() -> None:
    clock = FakeClock()
    access = Access(TOKENS, clock)
    first, second = access.new_code(), access.new_code()

    assert [access.redeem(code) for code in ("", "wrong", first, first)] == [False, False, True, False]
    clock.sleep(CODE_SECONDS + 1)
    assert not access.redeem(second)


@pytest.mark.parametrize(
    "token", ["short", "with a space in it somewhere", "ümlaut-0123456789abc", "\n" * 20]
)
def test_a_weak_or_unusable_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Tokens(token)

    assert token not in str(refusal.value)


def test_secrets_are_not_part_of_what_is_printed() -> None:
    assert "token" not in repr(TOKENS).lower().replace("tokens", "")


def test_new_tokens_are_long_and_differ() -> None:
    tokens = {token for _ in range(10) for token in (Tokens.new().write, Tokens.new().read)}

    assert len(tokens) == 20
    assert min(len(str(token)) for token in tokens) >= 40


def test_a_grant_is_the_same_for_a_token_and_its_cookie_on_every_server() -> None:
    one, other = Access(TOKENS), Access(TOKENS)

    grant = one.grant_of(bearer(TOKENS.write))

    assert grant == other.grant_of(cookie(one.new_cookie(TokenScope.WRITE)))
    assert one.grants == {grant, one.grant_of(bearer("read-token-0123456789"))}
    assert len(one.grants) == 2
    assert TOKENS.write not in grant


def test_a_new_token_has_new_grants_and_no_token_has_none() -> None:
    assert Access(TOKENS).grants.isdisjoint(Access(Tokens(TOKENS.write, "another-read-token-01")).grants)
    assert Access(TOKENS).grant_of([]) == ""
    assert (Access().grant_of([]), Access().grants) == ("", frozenset())
