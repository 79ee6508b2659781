"""The models that the demo's agents call: a scripted server on this machine, over HTTP, with streaming.

One of the two models has a price in the demo's settings, so that totals show what they cover.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import longwatch
from longwatch.model.prices import Price
from longwatch.testing.model_server import ModelReply, ModelRequest, ModelServer

LARGE, SMALL = "demo-large", "demo-small"
PRICES: Mapping[str, Price] = {
    LARGE: Price(input=Decimal("2.5"), output=Decimal(10), cache_read=Decimal("0.25")),
}
FIRST_TOKEN_SHARE = 0.4  # of the duration of a call
RESPONSE_SECONDS = 30.0
PARAMETERS = {"temperature": 0.2, "stream": True}

REPLIES: Mapping[str, tuple[ModelReply, float]] = {  # what a prompt begins with -> the reply and its seconds
    "Plan": (
        ModelReply(
            "Prices, news and load in parallel; the writer joins them.",
            reasoning="Three sources do not depend on each other.",
            input_tokens=1_840,
            output_tokens=160,
            reasoning_tokens=96,
        ),
        0.7,
    ),
    "Summarise": (
        ModelReply("Reservoirs are full, and exports resume.", input_tokens=620, output_tokens=40),
        1.1,
    ),
    "Draft": (
        ModelReply(
            "Prices in the south rise for the third week. Reservoirs are full, the cable to Denmark is back, "
            "and load follows the cold.",
            input_tokens=5_260,
            cache_read_tokens=4_096,
            output_tokens=310,
        ),
        1.0,
    ),
}


def write_settings(folder: Path) -> Path:
    """Write the demo's settings, which `longwatch serve` reads in a process of its own."""
    file = folder / "demo.toml"
    rates = {name: getattr(PRICES[LARGE], name) for name in ("input", "output", "cache_read")}
    lines = "".join(f"{name} = {rate}\n" for name, rate in rates.items())
    file.write_text(f'# Written by `longwatch demo`.\n[prices."{LARGE}"]\n{lines}', encoding="utf-8")
    return file


class ScriptedModel:
    """A context in which the models respond. A `pace` below 1 makes them faster."""

    def __init__(self, *, pace: float) -> None:
        self._pace = pace
        self._server = ModelServer(respond=self._reply)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    async def ask(self, model: str, system: str, prompt: str) -> str:
        """Call a model, recorded with its tokens and the time to its first one; returns its text."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        return await asyncio.to_thread(self._ask, model, messages)

    def _ask(self, model: str, messages: list[dict[str, str]]) -> str:
        with longwatch.model_call(model, provider="demo", input=messages, parameters=PARAMETERS) as call:
            text, last = "", dict[str, Any]()
            for chunk in self._stream({"model": model, "messages": messages, **PARAMETERS}):
                call.chunk()
                last |= {name: value for name, value in chunk.items() if value}
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
                    last["finish_reason"] = choice["finish_reason"]
            used = last["usage"]
            given = used.get("prompt_tokens_details") or {}
            written = used.get("completion_tokens_details") or {}
            call.succeed(
                usage=longwatch.ModelUsage(
                    input_tokens=used["prompt_tokens"],
                    output_tokens=used["completion_tokens"],
                    cache_read_tokens=given.get("cached_tokens"),
                    reasoning_tokens=written.get("reasoning_tokens"),
                ),
                output=[{"role": "assistant", "content": text}],
                response_id=last["id"],
                finish_reasons=[last["finish_reason"] or "stop"],
            )
        return text

    def _stream(self, body: Mapping[str, object]) -> Iterator[dict[str, Any]]:
        """The chunks of a response of OpenAI's chat API."""
        address = urlsplit(self._server.url)
        connection = HTTPConnection(str(address.hostname), address.port, timeout=RESPONSE_SECONDS)
        request = json.dumps({**body, "stream_options": {"include_usage": True}})
        try:
            connection.request("POST", "/v1/chat/completions", request, {"Content-Type": "application/json"})
            for line in _lines(connection.getresponse()):
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))
        finally:
            connection.close()

    def _reply(self, request: ModelRequest) -> ModelReply:
        prompt = str(request.body["messages"][-1]["content"])
        reply, seconds = REPLIES[prompt.split(" ", 1)[0]]
        duration, pieces = seconds * self._pace, max(1, len(reply.pieces()))

        def pause(chunk: int) -> None:
            """Wait for the first token, then as long for each of the others."""
            rest = duration * (1 - FIRST_TOKEN_SHARE) / pieces
            time.sleep(duration * FIRST_TOKEN_SHARE if chunk == 0 else rest)

        return replace(reply, pause=pause)


def _lines(response: HTTPResponse) -> Iterator[str]:
    while line := response.readline():
        yield line.decode().rstrip("\r\n")
