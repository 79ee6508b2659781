"""A command on a DynamoDB journal, which writes its own items there in layout `workflow`."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.journal.verify import Completeness
from longwatch.model.run import Status, fold
from tests.contract.tables import new_table
from tests.integration.process.conftest import Bench

# Boto3 from the environment alone: the table, the region and the ids that the command was given.
WRITES_AND_PRINTS = """
import boto3, json, os, sys, time

table, run_id, endpoint = os.environ["AGENTIFY_TABLE_NAME"], os.environ["AGENTIFY_WORKFLOW_ID"], sys.argv[1]
client = boto3.client("dynamodb", region_name=os.environ["AGENTIFY_TABLE_REGION"], endpoint_url=endpoint)
at = int(time.time() * 1000)

def tell(type, n, **fields):
    event = {"event_type": type, "workflow_id": run_id, "timestamp": at + n, **fields}
    item = {name: {"N" if name == "timestamp" else "S": str(value)} for name, value in event.items()}
    client.put_item(TableName=table, Item=item)
    print(json.dumps(event), flush=True)

tell("agent_start", 0, agent_name="Ada", event_id="a-1")
tell("tool_call", 1, agent_name="Ada", event_id="c-1", operation="search", status="started")
tell("tool_call", 2, agent_name="Ada", event_id="c-1", operation="search", status="error", error="no key")
tell("node_start", 3, node_id="n-1")
tell("workflow_error", 4, status="failed", error_message="gave up")
raise SystemExit(1)
"""


@pytest.fixture(
    params=[
        pytest.param("ministack_url", id="ministack", marks=pytest.mark.needs_ministack),
        pytest.param("dynamodb_local_url", id="dynamodb-local", marks=pytest.mark.needs_java),
    ]
)
def endpoint(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


def test_an_event_that_a_command_prints_and_writes_to_the_table_is_stored_once(
    endpoint: str, tmp_path: Path
) -> None:
    with new_table(endpoint, "workflow") as address:
        url = f"dynamodb://{address.table}?region={address.region}&layout=workflow&endpoint={endpoint}"
        bench = Bench(tmp_path, url=url, hold_seconds=1.0)

        outcome = bench.run(WRITES_AND_PRINTS, arguments=[endpoint])

        assert (outcome.exit_code, outcome.status) == (1, Status.FAILED)
        assert sorted(bench.types()) == sorted(
            ["workflow_start", "agent_start", "tool_call", "tool_call", "node_start", "workflow_error"]
        )
        assert bench.answer() is Completeness.COMPLETE
        run = fold(bench.events())
        assert run is not None
        assert [(call.name, call.status) for call in run.tool_calls] == [("search", "failed")]
