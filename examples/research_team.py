"""A small team of agents: two researchers work in parallel, a tool fails once and is retried.

Run it with `python examples/research_team.py`, then show it with `longwatch show latest`.
"""

import asyncio

import longwatch

ANSWERS = {
    "tides": ["The moon pulls the sea.", "Two high tides a day."],
    "moons": ["Earth has one.", "Mars has two."],
}

_already_failed: set[str] = set()


@longwatch.tool(system="library")
async def search(topic: str) -> list[str]:
    """Search for a topic. The first search for tides times out."""
    await asyncio.sleep(0.05)
    if topic == "tides" and topic not in _already_failed:
        _already_failed.add(topic)
        raise TimeoutError("the library did not respond")
    return ANSWERS[topic]


@longwatch.agent(role="finds sources")
async def researcher(topic: str) -> list[str]:
    """Search, and search once more after a timeout."""
    try:
        return await search(topic)
    except TimeoutError:
        longwatch.record("note", message=f"{topic}: trying again")
        return await search(topic)


@longwatch.agent(role="writes the report")
async def writer(found: list[list[str]]) -> str:
    """Put the sources together."""
    await asyncio.sleep(0.02)
    return " ".join(line for lines in found for line in lines)


@longwatch.workflow(name="research")
async def research(topics: list[str]) -> str:
    """The whole run: research in parallel, then write."""
    found = await asyncio.gather(*(researcher(topic) for topic in topics))
    return await writer(found)


if __name__ == "__main__":
    print(asyncio.run(research(["tides", "moons"])))
