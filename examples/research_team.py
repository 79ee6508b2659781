"""A small team of agents: two researchers work side by side, a tool fails once and is tried again.

Run it with `python examples/research_team.py`, then look at it with `longwatch show latest`.
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
    """Look a topic up. The first search for tides gets no answer."""
    await asyncio.sleep(0.05)
    if topic == "tides" and topic not in _already_failed:
        _already_failed.add(topic)
        raise TimeoutError("the library did not answer")
    return ANSWERS[topic]


@longwatch.agent(role="finds sources")
async def researcher(topic: str) -> list[str]:
    """Search, and search once more if there is no answer."""
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
