"""A simulated DRS for tests. It implements the wire protocol, so that the real boto3 client can call it.

    with DrsSimulator(clock=clock) as drs:
        job = drs.play(drill("s-1", "s-2"))
        client = boto3.client("drs", endpoint_url=drs.url, region_name="eu-west-1")

A job follows a script in seconds after its start. Time is that of the given clock, so a drill of half an hour
takes no longer than the test wants.
"""

from longwatch.testing.drs.scripts import ActionScript, JobScript, LogScript, ServerScript, drill, recovery
from longwatch.testing.drs.simulator import DrsSimulator

__all__ = ["ActionScript", "DrsSimulator", "JobScript", "LogScript", "ServerScript", "drill", "recovery"]
