"""`longwatch serve`: the HTTP API and the page."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.options import Invocation, common_options, pass_invocation
from longwatch.cli.render.terminal import log_formatter, remark, write_text
from longwatch.cli.resolve import check_journal, sqlite_path
from longwatch.errors import MissingExtra
from longwatch.journal.factory import open_journal
from longwatch.settings import Settings, data_directory

if TYPE_CHECKING:
    import socket

    from longwatch.server.access.origins import Hosts
    from longwatch.server.access.tokens import Access

LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and who may call it."""

    bound: socket.socket
    hosts: Hosts
    access: Access
    token_origin: str | None  # where the tokens come from; None: none is needed
    url: str  # printed for users, without a sign-in code
    trusted_proxies: tuple[str, ...] = ()


@click.command()
@click.option(
    "--host", help="Address to bind to; any non-loopback address requires a token.  [default: 127.0.0.1]"
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 selects a free port.  [default: 8321]")
@click.option("--token", "demand", is_flag=True, help="Require a token on a loopback address too.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the tokens; created on first use.  [default: server-tokens.json in the data directory]",
)
@click.option("--allow-host", metavar="NAME", multiple=True, help="Additional host name of this server.")
@click.option(
    "--allow-origin",
    metavar="ORIGIN",
    multiple=True,
    help="Allow pages of this origin to call the API (CORS).",
)
@click.option(
    "--trusted-proxy",
    metavar="ADDRESS",
    multiple=True,
    help="Trust X-Forwarded-For and X-Forwarded-Proto from this address or network.  [default: none]",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@click.option("--log-level", type=click.Choice(LEVELS), default="warning", show_default=True)
@common_options
@pass_invocation
def command(
    invocation: Invocation,
    host: str | None,
    port: int | None,
    demand: bool,
    token_file: Path | None,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    trusted_proxy: tuple[str, ...],
    open_page: bool,
    log_level: str,
) -> int:
    """Serve the API and the page.

    A loopback address needs no token. Any other address needs one, as does a loopback address with
    --token. It comes from LONGWATCH_TOKEN, or is created on first use in a file that only you can read.
    LONGWATCH_READ_TOKEN is a token that may only read. The printed URL then signs a browser in, once.

    It also sends the notifications of the rules in longwatch.toml.

    Ctrl-C stops the server within a second with exit code 130, SIGTERM with 0.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("longwatch serve", "server") from error
    handler = logging.StreamHandler()
    handler.setFormatter(log_formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=log_level.upper(), handlers=[handler])
    settings = invocation.settings()
    check_stores(settings, invocation)
    address = make_address(
        host or settings.server_host,
        settings.server_port if port is None else port,
        demand=demand,
        token_file=token_file or data_directory() / "server-tokens.json",
        allow_hosts=(*settings.server_allow_hosts, *allow_host),
        allow_origins=(*settings.server_allow_origins, *allow_origin),
        trusted_proxies=(*settings.server_trusted_proxies, *trusted_proxy),
        invocation=invocation,
    )
    stopped_by = _run(settings, address, invocation, open_page=open_page)
    return ExitCode.INTERRUPTED if stopped_by == signal.SIGINT else ExitCode.SUCCEEDED


def check_stores(settings: Settings, invocation: Invocation) -> None:
    """Check a table before the server starts. A file may be new."""
    if sqlite_path(settings.journal) is None:
        for warning in check_journal(settings, clock=invocation.clock):
            remark(f"longwatch: {warning}")


def make_address(
    host: str,
    port: int,
    *,
    demand: bool,
    token_file: Path,
    allow_hosts: tuple[str, ...],
    allow_origins: tuple[str, ...],
    invocation: Invocation,
    trusted_proxies: tuple[str, ...] = (),
) -> Address:
    """Bind the port, and find the tokens if they are needed."""
    from longwatch.server.access.origins import Hosts, is_loopback, parse_proxy
    from longwatch.server.access.tokens import Access, find_tokens
    from longwatch.server.http_server import listening_socket

    hosts = Hosts.of(host, allow_hosts=allow_hosts, allow_origins=allow_origins)
    proxies = tuple(map(parse_proxy, trusted_proxies))
    tokens, origin = None, None
    if demand or not is_loopback(host):
        tokens, origin = find_tokens(token_file, os.environ)
    bound = listening_socket(host, port)
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)
    name = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    url = f"http://{name}:{bound.getsockname()[1]}/"
    return Address(bound, hosts, Access(tokens, invocation.clock), origin, url, proxies)


def _run(settings: Settings, address: Address, invocation: Invocation, *, open_page: bool) -> int | None:
    from longwatch.documents.stores.factory import open_documents
    from longwatch.notifications.compose import notifying
    from longwatch.server.app import create_app
    from longwatch.server.context import open_context
    from longwatch.server.http_server import (
        allow_more_connections,
        collect_less_often,
        loop_factory,
        return_memory_early,
        serve,
    )

    def ready() -> None:
        url = address.url
        write_text(f"Serving {settings.journal} at {url}")
        if address.token_origin is not None:
            url = f"{url}login?code={address.access.new_code()}"
            write_text(f"Sign in with this URL, once and within ten minutes: {url}")
            remark(f"The tokens for programs are in {address.token_origin}.")
        remark("Press Ctrl-C to stop.")
        if open_page:  # in a thread: starting a browser takes a while
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    async def main() -> int | None:
        async with open_context(
            journal,
            documents,
            clock=invocation.clock,
            access=address.access,
            hosts=address.hosts,
            settings=settings,
        ) as context:
            app = create_app(context)
            collect_less_often()
            return_memory_early()
            allow_more_connections()
            return await serve(
                app,
                context,
                address.bound,
                ready,
                trusted_proxies=address.trusted_proxies,
                fills_search_index=settings.server_search_index,
                retention=settings.retention,
            )

    with (
        open_journal(settings=settings, clock=invocation.clock) as journal,
        open_documents(settings=settings, clock=invocation.clock) as documents,
        notifying(settings, journal, clock=invocation.clock),
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        return runner.run(main())
