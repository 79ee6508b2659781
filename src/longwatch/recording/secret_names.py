"""Field names that mark their value as a secret: `DB_PASSWORD`, `x-api-key`, `githubToken`, `database_url`.

A name is split into words. Trailing words that only qualify it (`_prod`, `_2`, `_value`) are dropped, and the
rest must end in one of the terms below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "[redacted]"
MAX_CACHED_NAMES = 10_000  # names can come from data, so the cache is bounded
NAME_CHARACTERS = 200  # of a name, from its end
OPAQUE_CHARACTERS = 20  # of an unbroken run of letters and digits; the longest run in a UUID has 12

# Matched at the end of the name without separators, so that `userpassword` counts; with plurals.
_ENDINGS = (
    *("password", "passwd", "passphrase", "passcode", "passkey", "pwd", "secret", "credential", "cookie"),
    *("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "masterkey"),
    *("authkey",),
    *("sharedkey", "accountkey", "storagekey", "sshkey", "servicekey", "subscriptionkey", "sessionkey"),
    *("accesskeyid", "sharedaccesskey", "sharedaccesssignature", "authorization", "oauth", "dsn", "totp"),
    *("otp",),
    *("connectionstring", "connstring", "connstr", "connectionurl", "connectionuri", "jdbcurl", "brokerurl"),
    *("databaseurl", "databaseuri", "dburl", "dburi", "mongourl", "mongouri", "mongodburi", "mongodburl"),
    *("redisurl", "redisuri", "postgresurl", "postgresuri", "postgresqlurl", "mysqlurl", "amqpurl"),
    *("cacheurl",),
    *("webhook", "webhookurl", "webhookuri", "sessionid", "phpsessid", "connectsid", "seedphrase"),
    *("mnemonic",),
    *("recoverycode", "backupcode", "verificationcode", "authcode", "mfacode", "accesscode", "pincode"),
    *("securitycode", "onetimecode", "2facode", "otpcode", "pinnumber", "hmackey", "sasurl", "sasuri"),
    *("dsnurl", "privkey", "appkey", "deploykey", "fernetkey", "twofactorcode", "unlockcode", "codeverifier"),
    *("stripekey", "sendgridkey", "openaikey", "anthropickey", "datadogkey", "sessid"),
)
_SECRET_ENDINGS = (*_ENDINGS, *(f"{ending}s" for ending in _ENDINGS), "token")
# Matched as the whole last word: `bypass`, `spin`, `author` and `max_tokens` end in these letters too.
_SECRET_WORDS = frozenset(
    {
        *("pass", "pin", "pins", "auth", "creds", "cred", "jwt", "jwts", "bearer", "csrf", "xsrf", "cvv"),
        *("cvc",),
        *("pw", "psw", "passw", "sid", "psk", "auths"),
        *("dbpass", "userpass", "sshpass", "pgpass", "smtppass", "rootpass", "adminpass", "ftppass"),
        *("mypass",),
    }
)
# `tokens` alone counts what a model has read or written.
_TOKEN_OWNERS = frozenset(
    {
        *("access", "refresh", "auth", "oauth", "api", "bearer", "session", "security", "secret", "csrf"),
        *("id",),
        *("personal", "bot", "deploy", "github", "gitlab", "slack", "npm", "login", "reset", "device", "sas"),
    }
)
_NOT_SECRET = frozenset(
    {
        *("nexttoken", "pagetoken", "nextpagetoken", "paginationtoken", "continuationtoken", "startingtoken"),
        *("nextcontinuationtoken", "synctoken", "nextsynctoken", "tasktoken", "pertoken", "eostoken"),
        *("bostoken",),
        *("padtoken", "unktoken", "stoptoken", "lasttoken", "firsttoken", "clienttoken"),
        *("maxtoken", "mintoken"),
    }
)
_QUALIFIERS = frozenset(
    {
        *("prod", "production", "dev", "development", "staging", "stage", "test", "live", "sandbox", "local"),
        *("old", "new", "current", "previous", "primary", "secondary", "backup", "default", "main"),
        *("temp", "tmp"),
        *("value", "text", "plain", "plaintext", "raw", "string", "str", "data", "header", "env"),
        *("bytes", "hash"),
        *("base64", "b64", "encoded", "hex", "pem", "confirm", "confirmation", "repeat", "again"),
        *("admin", "user"),
        *("base", "jar", "content", "v", "json", "digest", "root", "master", "replica", "readonly"),
        # What the secret opens: `api_key_openai`, `password_db`.
        *("db", "database", "postgres", "postgresql", "mysql", "mongo", "mongodb", "redis", "smtp", "ftp"),
        *("ssh", "ldap", "aws", "s3", "gcp", "google", "azure", "github", "gitlab", "npm", "pypi", "slack"),
        *("stripe", "twilio", "sendgrid", "openai", "anthropic", "huggingface", "telegram", "discord"),
    }
)
# Lower case. Every secret name contains one of these, and so does every other assignment to redact.
NAME_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cred", "cookie", "pin", "otp", "dsn", "conn"),
    *("url", "uri"),
    *("webhook", "sess", "sid", "pw", "psw", "psk", "mysql", "jwt", "sig", "csrf", "xsrf", "bearer", "cvv"),
    *("cvc", "code", "phrase", "mnemonic"),
    *("basic ", "identified", "-u ", "-user"),
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_COUNT = re.compile(r"(?:max|min|num|total)(?:[_-]|(?=[A-Z]))|(?:MAX|MIN|NUM|TOTAL)_")
_OPAQUE_RUN = re.compile(rf"[A-Za-z0-9]{{{OPAQUE_CHARACTERS},}}")
_SCHEMES = frozenset(
    {
        *("", "none", "no", "off", "basic", "bearer", "digest", "oauth", "oauth2", "oidc", "saml", "iam"),
        *("sso",),
        *("anonymous", "required", "optional", "disabled", "enabled", "token", "apikey", "api_key"),
        *("jwt", "mtls"),
    }
)


class SecretNames:
    """Decides by its name whether a field holds a secret. Decisions are cached: names repeat."""

    def __init__(self, further: tuple[str, ...] = ()) -> None:
        self._further = frozenset(_fold_name(name) for name in further)
        self._decisions: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        try:
            return self._decisions[name]  # type: ignore[index]
        except (KeyError, TypeError):
            return isinstance(name, str) and self._decide(name)

    def hides(self, name: object, value: object) -> bool:
        """Whether the value under this name is a secret. Booleans and None never are."""
        if name not in self or value is None or value is True or value is False:
            return False
        folded = _fold_name(str(name))
        if folded in self._further:
            return True
        if isinstance(value, int | float) and _COUNT.match(str(name)):
            return False
        return _can_be_secret(folded, value)

    def _decide(self, name: str) -> bool:
        secret = _fold_name(name) in self._further or is_secret_name(name)
        if len(self._decisions) < MAX_CACHED_NAMES:
            self._decisions[name] = secret
        return secret


def is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name[-NAME_CHARACTERS:])]
    while words:
        if _ends_secret(words):
            return True
        if words[-1] not in _QUALIFIERS and not words[-1].isdigit():
            return False
        words.pop()
    return False


def _ends_secret(words: list[str]) -> bool:
    if "".join(words) in _NOT_SECRET or "".join(words[-2:]) in _NOT_SECRET:
        return False
    if words[-1] == "tokens":
        return len(words) > 1 and words[-2] in _TOKEN_OWNERS
    return "".join(words).endswith(_SECRET_ENDINGS) or words[-1] in _SECRET_WORDS


def _can_be_secret(folded: str, value: object) -> bool:
    """Whether the value can be a secret, for names that also have a harmless meaning."""
    if folded.endswith(("sessionid", "sessionids", "sid", "sessid")):
        return _is_opaque(value)
    if folded.endswith(("pass", "pins")):
        return not isinstance(value, int | float)  # a count
    if folded.endswith("auth"):
        return not (isinstance(value, str) and value.lower() in _SCHEMES)
    return True


def _is_opaque(value: object) -> bool:
    """Whether a session id is as random as those in cookies. Readable ids and UUIDs are not redacted."""
    if isinstance(value, Mapping):
        return False
    if isinstance(value, list | tuple | set | frozenset):
        return any(_is_opaque(item) for item in value)
    run = _OPAQUE_RUN.search(str(value))
    return run is not None and not run[0].isalpha() and not run[0].isdigit()


def _fold_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()
