"""The scope that each route requires, in one table.

A request that matches no entry requires the write scope, so a route that is missing here is never open.
HEAD requires what GET requires. The patterns are the router's own and match the same path as the router.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from starlette.routing import compile_path

from longwatch.server.access.tokens import TokenScope
from longwatch.server.page.static_files import PAGE_PATHS

PUBLIC: Final = None  # no token is required
READ, WRITE = TokenScope.READ, TokenScope.WRITE
WEBSOCKET = "WEBSOCKET"  # instead of a method

PROJECT = "/api/projects/{project_id}"
SESSION = f"{PROJECT}/sessions/{{session_id}}"
TURN = f"{SESSION}/turns/{{turn_id}}"

REQUIRED: Mapping[tuple[str, str], TokenScope | None] = {
    **{("GET", path): PUBLIC for path in PAGE_PATHS},
    ("GET", "/viewer/{name:path}"): PUBLIC,
    ("GET", "/favicon.ico"): PUBLIC,
    ("GET", "/login"): PUBLIC,
    ("POST", "/login"): PUBLIC,
    ("POST", "/api/login"): PUBLIC,
    ("GET", "/api/health"): PUBLIC,
    ("GET", "/openapi.json"): READ,
    ("GET", "/metrics"): READ,
    ("GET", "/api/access"): READ,
    ("GET", "/api/runs"): READ,
    ("GET", "/api/runs/{run_id}"): READ,
    ("DELETE", "/api/runs/{run_id}"): WRITE,
    ("GET", "/api/runs/{run_id}/events"): READ,
    ("POST", "/api/runs/{run_id}/events"): WRITE,
    ("GET", "/api/runs/{run_id}/export"): READ,
    ("GET", "/api/runs/{run_id}/report"): READ,
    ("GET", "/api/runs/{run_id}/verify"): READ,
    ("GET", "/api/search"): READ,
    ("GET", "/api/compare"): READ,
    ("GET", "/api/notifications"): READ,
    ("GET", "/api/notifications/push"): READ,
    ("GET", "/api/notifications/subscriptions"): READ,
    ("POST", "/api/notifications/subscriptions"): READ,  # it receives what its token may read
    ("DELETE", "/api/notifications/subscriptions/{subscription_id}"): READ,  # of the same token
    ("POST", "/mcp"): READ,  # the tool that writes checks the scope itself
    ("GET", "/mcp"): READ,
    ("DELETE", "/mcp"): READ,
    ("POST", "/v1/traces"): WRITE,
    ("POST", "/v1/logs"): WRITE,
    ("POST", "/v1/metrics"): WRITE,
    ("GET", "/api/executions"): READ,
    ("GET", "/api/executions/{execution_id}"): READ,
    ("GET", "/api/executions/{plan_id}/{execution_id}"): READ,
    ("GET", "/api/projects"): READ,
    ("POST", "/api/projects"): WRITE,
    ("GET", PROJECT): READ,
    ("GET", f"{PROJECT}/sessions"): READ,
    ("POST", f"{PROJECT}/sessions"): WRITE,
    ("GET", SESSION): READ,
    ("GET", f"{SESSION}/turns"): READ,
    ("POST", f"{SESSION}/turns"): WRITE,
    ("GET", TURN): READ,
    ("GET", f"{TURN}/status"): READ,
    ("POST", f"{TURN}/start"): WRITE,
    ("POST", f"{TURN}/lines"): WRITE,
    ("POST", f"{TURN}/end"): WRITE,
    ("POST", f"{TURN}/interrupt"): WRITE,
    ("POST", f"{TURN}/waiting"): WRITE,
    ("DELETE", f"{TURN}/waiting"): WRITE,
    ("GET", f"{PROJECT}/files"): READ,
    ("POST", f"{PROJECT}/files/status"): READ,  # a query that needs a body
    ("GET", f"{PROJECT}/content/{{path:path}}"): READ,
    ("PUT", f"{PROJECT}/content/{{path:path}}"): WRITE,
    ("DELETE", f"{PROJECT}/content/{{path:path}}"): WRITE,
    ("GET", f"{PROJECT}/documents/{{path:path}}"): READ,
    ("POST", f"{PROJECT}/documents/{{path:path}}"): WRITE,
    ("GET", "/api/stream"): READ,
    ("GET", "/api/feed"): READ,
    ("GET", "/graphql"): READ,
    ("POST", "/graphql"): READ,  # there are no mutations
    ("GET", "/graphql/schema.graphql"): READ,
    (WEBSOCKET, "/graphql"): PUBLIC,  # its `connection_init` may have the token, and is rejected without one
    (WEBSOCKET, "/api/socket"): READ,
    (WEBSOCKET, "/api/projects/{project}/sync/{path:path}"): WRITE,
}


def required_scope(method: str, path: str) -> TokenScope | None:
    """The scope that a request requires; None if it requires no token."""
    for pattern, required in _PATTERNS.get("GET" if method == "HEAD" else method, ()):
        if pattern.match(path):
            return required
    return WRITE


def has_route(path: str) -> bool:
    """Whether the table has this path, with any method."""
    return _EVERY_PATH.match(path) is not None


def _pattern(templates: Iterable[str]) -> re.Pattern[str]:
    """One pattern for all of these paths, since every request is matched."""
    texts = (re.sub(r"\?P<\w+>", "?:", compile_path(each)[0].pattern) for each in templates)
    return re.compile("|".join(texts))


def _patterns(method: str) -> tuple[tuple[re.Pattern[str], TokenScope | None], ...]:
    """Patterns by scope, the strictest first: a path that matches two requires the stricter scope."""
    found = {
        required: [path for (each, path), needed in REQUIRED.items() if (each, needed) == (method, required)]
        for required in (WRITE, READ, PUBLIC)
    }
    return tuple((_pattern(paths), required) for required, paths in found.items() if paths)


_PATTERNS = {method: _patterns(method) for method, _ in REQUIRED}
_EVERY_PATH = _pattern({path for _, path in REQUIRED})
