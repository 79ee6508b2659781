"""Tokens of model calls and their totals, which always state how many calls they cover.

`Usage` adds up over events: of two parts of a run, of the runs of a list, of the turns of a conversation.
Tokens are grouped by what decides their price, so that `model.prices` can price them when they are read. A
call of which the provider did not report all counts is counted as a call without tokens.

Coding agents report one count for a whole turn, and some repeat it with a higher value. These reports are
cumulative: of two reports of a turn, or of a thread that several turns continue, the highest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple, TypeVar

from longwatch.model.event import Event, number_of, text_of, tool_status

TOKEN_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
USAGE_TYPES = frozenset({"model_call", "turn_result", "turn_line", "block"})
WITHOUT_OUTPUT = frozenset({"embeddings"})  # operations that have no output tokens
SIZES = (32_000, 100_000, 128_000, 200_000, 256_000, 272_000, 512_000)  # input tokens at which prices change
MAX_MODELS = 50  # groups of a total; the tokens of further ones are in one group without a name
_OF_MODEL = frozenset({"thinking", "content", "tool_use"})  # kinds of blocks that a model has written

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The tokens of one model call. None: the provider did not report the count."""

    input_tokens: int | None = None  # all of them, those read from or written to a cache included
    output_tokens: int | None = None  # all of them, reasoning included
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input and output together; None if neither is known."""
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def fields(self) -> dict[str, int]:
        """The fields of an event, without unknown counts."""
        counts = {name: getattr(self, name) for name in TOKEN_FIELDS}
        return {name: count for name, count in counts.items() if count is not None}


def usage_of(payload: Mapping[str, object]) -> ModelUsage | None:
    """The tokens that a `model_call` event states; None if it states none."""
    counts = {name: _count(payload, name) for name in TOKEN_FIELDS}
    if counts["cache_write_tokens"] is None:  # spans of earlier conventions
        counts["cache_write_tokens"] = _count(payload, "cache_creation_input_tokens")
    if counts["cache_read_tokens"] is None:
        counts["cache_read_tokens"] = _count(payload, "cache_read_input_tokens")
    return ModelUsage(**counts) if any(count is not None for count in counts.values()) else None


def has_counts(payload: Mapping[str, object]) -> bool:
    """Whether the end of a model call has all the counts that totals need. For the thread that records it."""
    if payload.get("input_tokens") is None:
        return False
    return payload.get("output_tokens") is not None or payload.get("operation") in WITHOUT_OUTPUT


def _count(payload: Mapping[str, object], name: str) -> int | None:
    number = number_of(payload, name)
    return None if number is None or number < 0 else int(number)


class TokenGroup(NamedTuple):
    """What decides the price of a call's tokens."""

    provider: str = ""
    model: str = ""  # as requested
    response_model: str = ""  # empty if it is the requested one
    size: int = 0  # the largest of `SIZES` that the input exceeds
    reads_cache: bool = False
    writes_cache: bool = False


NO_GROUP = TokenGroup()


class TokenCounts(NamedTuple):
    """The calls of one group and their tokens."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(*map(int.__add__, self, other))

    def highest(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(*map(max, self, other))


NO_COUNTS = TokenCounts()


@dataclass(frozen=True, slots=True)
class AgentUsage:
    """What a coding agent has reported for a turn so far. Its counts never decrease."""

    thread: str = ""  # whose counts they are, if the agent counts over several turns
    models: Mapping[str, TokenCounts] = field(default_factory=dict)  # "": the agent does not name it
    cost: float | None = None  # US dollars

    def highest(self, other: AgentUsage) -> AgentUsage:
        """Both reports: of each count the higher one."""
        models = dict(self.models)
        for name, counts in other.models.items():
            models[name] = models.get(name, NO_COUNTS).highest(counts)
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return AgentUsage(max(self.thread, other.thread), models, max(costs, default=None))

    @property
    def named_models(self) -> Mapping[str, TokenCounts]:
        """The counts by model; the count without a name only if there are no others, which it includes."""
        named = {name: counts for name, counts in self.models.items() if name}
        return named or self.models

    @property
    def total(self) -> TokenCounts:
        return reduce(TokenCounts.plus, self.named_models.values(), NO_COUNTS)


NO_REPORT = AgentUsage()


@dataclass(frozen=True, slots=True)
class Usage:
    """The model calls of some events, and their tokens."""

    starts: int = 0
    ends: int = 0
    repeats: int = 0  # ends of calls that are recorded twice
    tokens: Mapping[TokenGroup, TokenCounts] = field(default_factory=dict)  # of calls with all counts
    reports: Mapping[str, AgentUsage] = field(default_factory=dict)  # by turn

    def __bool__(self) -> bool:
        return bool(self.starts or self.ends or self.reports)

    @property
    def model_calls(self) -> int:
        """The number of calls. The report of a coding agent counts as one call."""
        return max(self.starts, self.ends) - self.repeats + len(self.reports)

    @property
    def total_tokens(self) -> int:
        """The tokens of the calls with all counts, without reports of coding agents."""
        return sum(counts.input_tokens + counts.output_tokens for counts in self.tokens.values())

    def plus(self, other: Usage) -> Usage:
        """The usage of both parts. Commutative and associative, if every event is in one part only."""
        if not other:
            return self
        if not self:
            return other
        return Usage(
            self.starts + other.starts,
            self.ends + other.ends,
            self.repeats + other.repeats,
            _limit(_combine(self.tokens, other.tokens, TokenCounts.plus)),
            _combine(self.reports, other.reports, AgentUsage.highest),
        )

    def highest(self, other: Usage) -> Usage:
        """Of two totals of one producer the later one, count by count. Idempotent."""
        return Usage(
            max(self.starts, other.starts),
            max(self.ends, other.ends),
            max(self.repeats, other.repeats),
            _limit(_combine(self.tokens, other.tokens, TokenCounts.highest)),
            _combine(self.reports, other.reports, AgentUsage.highest),
        )


NO_USAGE = Usage()


def total_usage(runs: Iterable[Usage]) -> Usage:
    """The usage of several runs. Every call is counted, whether its start or its end is missing."""
    settled = (
        replace(each, starts=max(each.starts, each.ends), ends=max(each.starts, each.ends)) for each in runs
    )
    return reduce(Usage.plus, settled, NO_USAGE)


def _combine(one: Mapping[K, V], other: Mapping[K, V], join: Callable[[V, V], V]) -> Mapping[K, V]:
    found = dict(one)
    for key, value in other.items():
        found[key] = join(found[key], value) if key in found else value
    return found


def _limit(tokens: Mapping[TokenGroup, TokenCounts]) -> Mapping[TokenGroup, TokenCounts]:
    """The first groups by name, which are the same for any order of additions, and the rest as one."""
    if len(tokens) <= MAX_MODELS:
        return tokens
    named = sorted(group for group in tokens if group != NO_GROUP)
    found = {group: tokens[group] for group in named[:MAX_MODELS]}
    rest = [tokens[group] for group in (*named[MAX_MODELS:], NO_GROUP) if group in tokens]
    return {**found, NO_GROUP: reduce(TokenCounts.plus, rest)} if rest else found


class UsageCounter:
    """Counts the model calls of events, one event after the other."""

    def __init__(self) -> None:
        self._starts = self._ends = self._repeats = 0
        self._tokens: dict[TokenGroup, TokenCounts] = {}
        self._reports: dict[str, AgentUsage] = {}

    def add(self, event: Event) -> None:
        """Count an event of one of the `USAGE_TYPES`."""
        payload = event.payload
        if event.type == "model_call":
            self._add_call(payload)
        elif event.type == "turn_result":
            self._add_report(event.run_id, _report_of(payload))
        elif event.type == "block" and text_of(payload, "kind") in _OF_MODEL:
            self._add_report(
                event.run_id, NO_REPORT
            )  # a model was called, whether its agent reports it or not
        elif event.type == "turn_line":
            thread = _thread_of(payload.get("line"))
            if thread is not None:
                self._add_report(event.run_id, AgentUsage(thread))

    def usage(self) -> Usage:
        """The usage of the events so far."""
        if not (self._starts or self._ends or self._reports):
            return NO_USAGE
        return Usage(self._starts, self._ends, self._repeats, _limit(self._tokens), self._reports)

    def _add_call(self, payload: Mapping[str, object]) -> None:
        if tool_status(payload) == "started":
            self._starts += 1
            return
        self._ends += 1
        if text_of(payload, "same_as") is not None:
            self._repeats += 1
            if payload.get("adds_usage") is not True:
                return
        names = ("provider", "operation", "model", "response_model")
        counted = token_group(usage_of(payload), **{name: text_of(payload, name) for name in names})
        if counted is not None:
            group, counts = counted
            self._tokens[group] = self._tokens.get(group, NO_COUNTS).plus(counts)

    def _add_report(self, turn: str, report: AgentUsage) -> None:
        before = self._reports.get(turn)
        self._reports[turn] = report if before is None else before.highest(report)


def token_group(
    used: ModelUsage | None,
    *,
    provider: str | None,
    operation: str | None,
    model: str | None,
    response_model: str | None,
) -> tuple[TokenGroup, TokenCounts] | None:
    """The group and the tokens of a model call that ended; None if a count is missing."""
    if used is None or used.input_tokens is None:
        return None
    if used.output_tokens is None and operation not in WITHOUT_OUTPUT:
        return None
    reads, writes = used.cache_read_tokens or 0, used.cache_write_tokens or 0
    group = TokenGroup(
        provider=provider or "",
        model=model or "",
        response_model="" if response_model == model else response_model or "",
        size=max((size for size in SIZES if used.input_tokens > size), default=0),
        reads_cache=reads > 0,
        writes_cache=writes > 0,
    )
    counts = (used.input_tokens, used.output_tokens or 0, reads, writes, used.reasoning_tokens or 0)
    return group, TokenCounts(1, *counts)


def _report_of(payload: Mapping[str, object]) -> AgentUsage:
    """The usage that a coding agent reports at the end of a turn, in the words of Claude Code or Codex."""
    models: dict[str, TokenCounts] = {}
    by_model = payload.get("modelUsage")
    for name, reported in by_model.items() if isinstance(by_model, Mapping) else ():
        counts = _reported_counts(reported, _CLAUDE_MODEL)
        if counts is not None:
            models[str(name)] = counts
    usage = payload.get("usage")
    if isinstance(usage, Mapping):
        is_claude = any(name in usage for name in _CLAUDE[2:])
        counts = _reported_counts(usage, _CLAUDE if is_claude else _CODEX)
        if counts is not None:
            models[""] = counts
    return AgentUsage(models=models, cost=number_of(payload, "total_cost_usd"))


# The names of input, output, cache read, cache write and reasoning tokens.
_CLAUDE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_CLAUDE_MODEL = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_CODEX = ("input_tokens", "output_tokens", "cached_input_tokens", "", "reasoning_output_tokens")


def _reported_counts(reported: object, names: tuple[str, ...]) -> TokenCounts | None:
    if not isinstance(reported, Mapping):
        return None
    found = [_count(reported, name) for name in names]
    if found[0] is None or found[1] is None:
        return None
    given, written, reads, writes, reasoning = (*(count or 0 for count in found), 0, 0)[:5]
    if names is not _CODEX:
        given += reads + writes  # Anthropic counts cached tokens apart
    return TokenCounts(1, given, written, reads, writes, reasoning)


def _thread_of(line: object) -> str | None:
    """The thread of Codex that a line starts or resumes: its counts go on from those of earlier turns."""
    if not isinstance(line, Mapping) or line.get("type") != "thread.started":
        return None
    return text_of(line, "thread_id")
