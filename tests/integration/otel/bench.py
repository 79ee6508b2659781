"""A tracer of the real OpenTelemetry SDK, and what is recorded of its spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import Tracer

from longwatch.integrations.otel import LongwatchSpanProcessor
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.verify import Completeness, Verifier
from longwatch.model.event import Event
from longwatch.recording.recorder import Recorder
from longwatch.settings import Settings

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "Ada"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "t-1"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "large", "gen_ai.provider.name": "acme"}


class Bench:
    """A tracer whose spans are recorded, and what was recorded."""

    def __init__(self, folder: Path, *, sampler: Sampler | None = None, **options: Any) -> None:
        self.journal = MemoryJournal()
        settings = Settings(journal="memory://", outbox=str(folder / "outbox.db"))
        self.recorder = Recorder(self.journal, settings=settings)
        self.processor = LongwatchSpanProcessor(self.recorder, **options)
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.tracer: Tracer = self.provider.get_tracer("tests")

    def run_ids(self) -> list[str]:
        assert self.processor.force_flush()
        return sorted(run.run_id for run in self.journal.find_runs().runs)

    def events(self, run_id: str | None = None) -> list[Event]:
        """The events of a run, or of the only one."""
        (wanted,) = [run_id] if run_id is not None else self.run_ids()
        assert self.processor.force_flush()
        return list(self.journal.read(wanted, limit=10_000).events)

    def statuses(self, run_id: str | None = None) -> list[tuple[str, object]]:
        return [(event.type, event.payload.get("status")) for event in self.events(run_id)]

    def close(self) -> None:
        self.provider.shutdown()
        self.recorder.close()


def verified(events: list[Event]) -> Completeness:
    verifier = Verifier()
    for event in events:
        verifier.add(event)
    return verifier.report(events[-1].occurred_at).answer
