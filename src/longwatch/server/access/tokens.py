"""Access: tokens with a scope, a cookie for browsers, and a one-time code that is exchanged for the cookie.

A token is never logged and never part of a URL. Secrets are compared in constant time. A cookie is signed
with a key derived from the tokens, so that every server with the same tokens accepts it, until they change.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidInput
from longwatch.server.access.subprotocols import offered_token
from longwatch.settings import make_private_directory

COOKIE = "longwatch_session"
COOKIE_SECONDS = 7 * 24 * 3600
CODE_SECONDS = 600
SHORTEST_TOKEN = 16  # characters
TOKEN_BYTES = 32

Headers = Iterable[tuple[bytes, bytes]]


class TokenScope(StrEnum):
    """What a caller may do."""

    READ = "read"
    WRITE = "write"  # and read

    def allows(self, wanted: TokenScope) -> bool:
        return self is TokenScope.WRITE or wanted is TokenScope.READ


@dataclass(frozen=True, slots=True)
class Tokens:
    """The secrets of a server."""

    write: str = field(repr=False)
    read: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for token in filter(None, (self.write, self.read)):
            if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
                raise InvalidInput(
                    f"Invalid token. Use {SHORTEST_TOKEN} or more printable ASCII characters without spaces. "
                    "Without a token, longwatch generates one."
                )
        if self.write == self.read:
            raise InvalidInput(
                "The read token and the write token are the same. Use different ones, or omit the first."
            )

    @classmethod
    def new(cls) -> Tokens:
        return cls(secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))


class Access:
    """Decides what a request may do. Without tokens, every request may do everything."""

    def __init__(self, tokens: Tokens | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._digests: list[tuple[TokenScope, bytes]] = []
        self._codes: dict[bytes, int] = {}  # digest -> epoch ms of its end
        self._key = b""
        if tokens is not None:
            self._digests.append((TokenScope.WRITE, _digest(tokens.write)))
            if tokens.read is not None:
                self._digests.append((TokenScope.READ, _digest(tokens.read)))
            together = f"{tokens.write}\0{tokens.read or ''}".encode()
            self._key = hmac.digest(together, b"longwatch cookie", "sha256")

    @property
    def is_open(self) -> bool:
        """Whether no token is required."""
        return not self._digests

    def scope_of(self, headers: Headers, subprotocols: Iterable[str] = ()) -> TokenScope | None:
        """The scope of a request, by its headers and the subprotocols of a WebSocket; None: nothing.

        A token takes precedence over cookies.
        """
        if self.is_open:
            return TokenScope.WRITE
        cookies: list[bytes] = []
        for name, value in headers:
            if name == b"authorization":
                kind, _, token = value.partition(b" ")
                return self.scope_of_token(token.strip()) if kind.lower() == b"bearer" else None
            if name == b"cookie":
                cookies.append(value)
        offered = offered_token(subprotocols)
        if offered is not None:
            return self.scope_of_token(offered)
        scopes = [self._scope_of_cookie(each) for value in cookies for each in _cookies(value)]
        return next((scope for scope in scopes if scope is not None), None)

    def scope_of_token(self, token: bytes) -> TokenScope | None:
        """The scope of this token, in constant time."""
        given, found = sha256(token).digest(), None
        for scope, digest in self._digests:
            if hmac.compare_digest(given, digest):
                found = scope
        return found

    @property
    def grants(self) -> frozenset[str]:
        """The grants of all tokens; none if no token is required."""
        return frozenset(self._grant(scope) for scope, _ in self._digests)

    def grant_of(self, headers: Headers) -> str:
        """A fingerprint of the token or cookie that allows a request; empty if none is required.

        It outlives the request, is the same on every server with the same tokens, and reveals nothing.
        """
        scope = None if self.is_open else self.scope_of(headers)
        return "" if scope is None else self._grant(scope)

    def _grant(self, scope: TokenScope) -> str:
        return hmac.digest(self._key, b"longwatch grant " + scope.value.encode(), "sha256").hex()[:32]

    def new_code(self) -> str:
        """A code that can be exchanged once, within ten minutes, for a cookie with the write scope."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = self._clock.now_ms() + CODE_SECONDS * 1000
        return code

    def redeem(self, code: str) -> bool:
        """Whether this code is valid. Afterwards it is not."""
        given, now, is_valid = _digest(code), self._clock.now_ms(), False
        for digest, ends in list(self._codes.items()):
            if hmac.compare_digest(given, digest):
                is_valid = now < ends
                del self._codes[digest]
        return is_valid

    def new_cookie(self, scope: TokenScope) -> str:
        """The value of a cookie with this scope."""
        ends = self._clock.now_ms() // 1000 + COOKIE_SECONDS
        claims = f"{scope.value}.{ends}.{secrets.token_hex(8)}"
        return f"{claims}.{self._signature(claims)}"

    def _scope_of_cookie(self, value: str) -> TokenScope | None:
        claims, _, signature = value.rpartition(".")
        if not hmac.compare_digest(self._signature(claims).encode(), signature.encode(errors="replace")):
            return None
        word, ends, _ = claims.split(".")  # signed by a server, so it has this form
        return TokenScope(word) if self._clock.now_ms() // 1000 < int(ends) else None

    def _signature(self, claims: str) -> str:
        return hmac.digest(self._key, claims.encode(errors="replace"), "sha256").hex()


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()


def _cookies(header: bytes) -> Iterable[str]:
    """The values of our cookie in a header; a browser may send several."""
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            yield value


WRITE_VARIABLE = "LONGWATCH_TOKEN"
READ_VARIABLE = "LONGWATCH_READ_TOKEN"
FILE_NAME = "server-tokens.json"


def find_tokens(file: Path, environment: Mapping[str, str]) -> tuple[Tokens, str]:
    """The tokens, and where they are stored."""
    write = environment.get(WRITE_VARIABLE)
    if write:
        return Tokens(write, environment.get(READ_VARIABLE) or None), WRITE_VARIABLE
    try:
        return _create(file), str(file)
    except FileExistsError:
        return _read(file), str(file)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write {file}: {error.strerror}. Choose another file with --token-file, or set "
            f"{WRITE_VARIABLE}."
        ) from error


def _create(file: Path) -> Tokens:
    """New tokens in a new file that only this user can read."""
    make_private_directory(file.parent)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    tokens = Tokens.new()
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        json.dump({"write": tokens.write, "read": tokens.read}, target, indent=2)
        target.write("\n")
    return tokens


def _read(file: Path) -> Tokens:
    try:
        if os.name == "posix" and file.stat().st_mode & 0o077:
            raise InvalidInput(
                f"Other users can read {file}. Run `chmod 600 {file}`, or delete it to get new tokens."
            )
        found = json.loads(file.read_text(encoding="utf-8"))
        return Tokens(found["write"], found.get("read"))
    except OSError as error:
        raise InvalidInput(
            f"Cannot read {file}: {error.strerror}. Choose another file with --token-file."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{file} has no valid tokens. Delete it to get new ones.") from error
