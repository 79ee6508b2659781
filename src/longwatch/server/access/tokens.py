"""Who may come in: tokens with a scope, a cookie for browsers, and a code that is exchanged for it once.

A token is never written to a log and never stands in an address. Everything secret is compared in constant
time. A cookie is signed with a key made from the tokens, so that every server with the same tokens takes it,
and none does once the tokens are changed.
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
                    f"A token must have {SHORTEST_TOKEN} or more printable ASCII characters without spaces; "
                    "leave it out, and a good one is made."
                )
        if self.write == self.read:
            raise InvalidInput("The tokens for reading and for writing are the same; leave one out.")

    @classmethod
    def new(cls) -> Tokens:
        return cls(secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES))


class Access:
    """Decides for each request. Without tokens everybody may do everything."""

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
        """Whether no token is needed."""
        return not self._digests

    def scope_of(self, headers: Headers) -> TokenScope | None:
        """What a request may do by its headers; None: nothing. A token that is given counts alone."""
        if self.is_open:
            return TokenScope.WRITE
        cookies: list[bytes] = []
        for name, value in headers:
            if name == b"authorization":
                kind, _, token = value.partition(b" ")
                return self.scope_of_token(token.strip()) if kind.lower() == b"bearer" else None
            if name == b"cookie":
                cookies.append(value)
        scopes = [self._scope_of_cookie(each) for value in cookies for each in _cookies(value)]
        return next((scope for scope in scopes if scope is not None), None)

    def scope_of_token(self, token: bytes) -> TokenScope | None:
        """What this token allows. Takes the same time whichever it is."""
        given, found = sha256(token).digest(), None
        for scope, digest in self._digests:
            if hmac.compare_digest(given, digest):
                found = scope
        return found

    def new_code(self) -> str:
        """A code that can be exchanged once, soon, for a cookie that allows everything."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = self._clock.now_ms() + CODE_SECONDS * 1000
        return code

    def redeem(self, code: str) -> bool:
        """Whether this code is good. It is not any more after that."""
        given, now, good = _digest(code), self._clock.now_ms(), False
        for digest, ends in list(self._codes.items()):
            if hmac.compare_digest(given, digest):
                good = now < ends
                del self._codes[digest]
        return good

    def new_cookie(self, scope: TokenScope) -> str:
        """The value of a cookie with this scope."""
        ends = self._clock.now_ms() // 1000 + COOKIE_SECONDS
        said = f"{scope.value}.{ends}.{secrets.token_hex(8)}"
        return f"{said}.{self._signature(said)}"

    def _scope_of_cookie(self, value: str) -> TokenScope | None:
        said, _, signature = value.rpartition(".")
        if not hmac.compare_digest(self._signature(said).encode(), signature.encode(errors="replace")):
            return None
        word, ends, _ = said.split(".")  # signed by us, so it has this form
        return TokenScope(word) if self._clock.now_ms() // 1000 < int(ends) else None

    def _signature(self, said: str) -> str:
        return hmac.digest(self._key, said.encode(errors="replace"), "sha256").hex()


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()


def _cookies(header: bytes) -> Iterable[str]:
    """The values of our cookie in a header; a browser may send several of one name."""
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            yield value


WRITE_VARIABLE = "LONGWATCH_TOKEN"
READ_VARIABLE = "LONGWATCH_READ_TOKEN"
FILE_NAME = "server-tokens.json"


def find_tokens(file: Path, environment: Mapping[str, str]) -> tuple[Tokens, str]:
    """The tokens, and where they are kept."""
    write = environment.get(WRITE_VARIABLE)
    if write:
        return Tokens(write, environment.get(READ_VARIABLE) or None), WRITE_VARIABLE
    try:
        return _made(file), str(file)
    except FileExistsError:
        return _read(file), str(file)
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be written: {error.strerror}. Choose another with --token-file, or set "
            f"{WRITE_VARIABLE}."
        ) from error


def _made(file: Path) -> Tokens:
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
                f"{file} can be read by others. Run `chmod 600 {file}`, or delete it to get new tokens."
            )
        found = json.loads(file.read_text(encoding="utf-8"))
        return Tokens(found["write"], found.get("read"))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{file} does not hold tokens. Delete it to get new ones.") from error
