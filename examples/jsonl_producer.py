"""A program that does not use longwatch: it prints events as JSON lines, and other text.

Run it with `longwatch run -- python examples/jsonl_producer.py`, then see it: `longwatch show latest`.
"""

import json
import os
import sys
import time

WORKFLOW_ID = os.environ.get("WORKFLOW_ID", "wf-00000000")


def emit(event_type: str, **fields: object) -> None:
    """One event, one line."""
    event = {"event_type": event_type, "workflow_id": WORKFLOW_ID, "timestamp": time.time_ns() // 1_000_000}
    print(json.dumps({**event, **fields}), flush=True)


def main() -> None:
    """Two nodes, a tool, and the terminal event."""
    began = time.monotonic()
    emit("node_start", node_id="plan", node_name="Planner")
    print("thinking about the plan …", flush=True)
    emit("node_stop", node_id="plan", node_name="Planner", status="completed", execution_time_ms=12)
    emit("node_start", node_id="search", node_name="Searcher")
    call = {"event_id": "call-1", "agent_name": "Searcher", "system": "web", "operation": "search"}
    emit("tool_call", **call, status="started", input={"query": "tides"})
    time.sleep(0.05)
    emit("tool_call", **call, status="completed", output=["page 1", "page 2"], duration_ms=50)
    emit("node_stop", node_id="search", node_name="Searcher", status="completed", execution_time_ms=51)
    print("logs belong on standard error", file=sys.stderr)
    elapsed = round((time.monotonic() - began) * 1000, 3)
    emit("workflow_complete", status="completed", execution_time_ms=elapsed, result="two pages")


if __name__ == "__main__":
    main()
