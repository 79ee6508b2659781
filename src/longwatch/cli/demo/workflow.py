"""The workflow of the demo: a team of agents writes a market brief, recorded with the public decorators.

Three agents work in parallel, a tool fails and is retried, models are called, the writer waits for approval,
and one event arrives late.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import longwatch
from longwatch.cli.demo.model import LARGE, SMALL, ScriptedModel

STEPS = 19  # agents and calls of tools and models that end while it plays


class FeedTimeout(Exception):
    """The price feed did not respond."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the demo plays: 1 is the normal pace, 0.1 that of a script."""

    factor: float

    async def work(self, seconds: float) -> None:
        """Pretend to work for about this long."""
        await asyncio.sleep(seconds * self.factor * random.uniform(0.85, 1.15))


class Team:
    """Agents and their tools."""

    def __init__(self, pace: Pace, model: ScriptedModel) -> None:
        self._pace = pace
        self._model = model
        self._feed_is_up = False
        self.run_id: str | None = None  # set when the workflow starts

    @longwatch.workflow(name="market brief")
    async def brief(self, topic: str) -> str:
        """Write the brief."""
        self.run_id = longwatch.current_run_id()
        longwatch.record("graph_structure", **GRAPH)
        plan = await self.coordinator(topic)
        found = await asyncio.gather(*(member(plan) for member in (self.analyst, self.reader, self.engineer)))
        return await self.writer(found)

    @longwatch.agent(role="plans the work")
    async def coordinator(self, topic: str) -> str:
        return await self.make_plan(topic)

    @longwatch.agent(role="reads prices")
    async def analyst(self, plan: str) -> str:
        for attempt in (1, 2, 3):
            try:
                prices = await self.fetch_prices("NO2", days=30)
                break
            except FeedTimeout:
                longwatch.record("retry", operation="fetch_prices", attempt=attempt)
                await self._pace.work(0.3)
        else:
            raise FeedTimeout("the price feed did not respond")
        return await self.find_trend(prices)

    @longwatch.agent(role="reads the news")
    async def reader(self, plan: str) -> str:
        headlines = await self.search_news("power market Norway")
        self._record_late_event("flooding closes a line near Voss")
        summaries = await asyncio.gather(*(self.summarise(headline) for headline in headlines))
        return "; ".join(summaries)

    @longwatch.agent(role="queries the warehouse")
    async def engineer(self, plan: str) -> str:
        rows = await self.query_warehouse("select hour, load from grid where area = 'NO2'")
        return f"{rows} hours of load"

    @longwatch.agent(role="writes it up")
    async def writer(self, found: list[str]) -> str:
        text = await self.draft(found)
        await self.check_facts(text)
        async with longwatch.waiting("approval", detail="publish the brief"):
            await self._pace.work(0.6)
        return text

    @longwatch.tool
    async def make_plan(self, topic: str) -> str:
        return await self._model.ask(LARGE, "You plan the work of three agents.", f"Plan a brief on {topic}.")

    @longwatch.tool(system="market-data")
    async def fetch_prices(self, area: str, *, days: int) -> list[float]:
        await self._pace.work(0.9)
        if not self._feed_is_up:
            self._feed_is_up = True
            raise FeedTimeout(f"no response from the feed for {area} in 900 ms")
        return [round(42 + 9 * random.random(), 2) for _ in range(days)]

    @longwatch.tool
    async def find_trend(self, prices: list[float]) -> str:
        await self._pace.work(0.5)
        return "rising" if prices[-1] > prices[0] else "falling"

    @longwatch.tool(system="search")
    async def search_news(self, query: str) -> list[str]:
        await self._pace.work(0.8)
        return ["Reservoirs at 71 %", "Cable to Denmark back in service"]

    @longwatch.tool
    async def summarise(self, headline: str) -> str:
        return await self._model.ask(SMALL, "You write one sentence.", f"Summarise the news: {headline}")

    @longwatch.tool(system="warehouse")
    async def query_warehouse(self, statement: str) -> int:
        await self._pace.work(1.8)
        return 720

    @longwatch.tool
    async def draft(self, found: list[str]) -> str:
        return await self._model.ask(
            LARGE, "You write market briefs.", f"Draft the brief: {'; '.join(found)}"
        )

    @longwatch.tool
    async def check_facts(self, text: str) -> bool:
        await self._pace.work(0.5)
        return True

    def _record_late_event(self, text: str) -> None:
        """Record an event of a moment ago: it is stored late, with its true time."""
        recorder = longwatch.get_recorder()
        happened_at = recorder.clock.now_ms() - round(600 * self._pace.factor)
        longwatch.record("feed_item", occurred_at=happened_at, text=text, late=True)


GRAPH: dict[str, Any] = {
    "nodes": [
        {"id": name, "name": name, "role": role}
        for name, role in (
            ("coordinator", "plans the work"),
            ("analyst", "reads prices"),
            ("reader", "reads the news"),
            ("engineer", "queries the warehouse"),
            ("writer", "writes it up"),
        )
    ],
    "edges": [
        *({"from": "coordinator", "to": each} for each in ("analyst", "reader", "engineer")),
        *({"from": each, "to": "writer"} for each in ("analyst", "reader", "engineer")),
    ],
    "entry_points": ["coordinator"],
}
