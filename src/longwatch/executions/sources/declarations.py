"""A watch as data: the call, where its answer has what is asked for, and which words mean what.

    Declaration(
        name="builds",
        call=AwsCall(
            service="codebuild", operation="BatchGetBuilds", ids="ids", results="builds", key=("id",)
        ),
        status="buildStatus",
        statuses=statuses(running="IN_PROGRESS", succeeded="SUCCEEDED", failed="FAILED FAULT TIMED_OUT"),
    )

A word that is in no table is no end: what it is said of stays open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Meaning(StrEnum):
    """What a source's own word says."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ENDED = "ended"  # over; `outcome` says how, and without it that is not to be known

    @property
    def is_end(self) -> bool:
        return self not in (Meaning.PENDING, Meaning.RUNNING)


StatusTable = Mapping[str, Meaning]
"""Meanings by word, each written as `normal` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCall:
    """An operation of an AWS service, named as in its API."""

    service: str  # boto3's name for it
    operation: str
    signed_as: str | None = None  # the service's name in policies, if that is another
    parameters: Mapping[str, str] = field(default_factory=dict)  # "{id}", or "{1}" and "{2}" of a divided id
    divider: str | None = None  # between the parts of an id
    ids: str | None = None  # the parameter that takes a list of ids; then `parameters` are the same for all
    at_once: int = 1  # ids in one call
    results: str = ""  # path to what was asked about: a list if there is `key`
    key: tuple[str, ...] = ()  # paths to what an id may be, in each result
    token: tuple[str, str] | None = None  # the parameter and the member that page the answer
    unknown: tuple[tuple[str, str], ...] = ()  # error codes, and what their messages have to hold: no such id
    refused: frozenset[str] = frozenset()  # further error codes that mean: this can be no id

    @property
    def name(self) -> str:
        """As policies write it."""
        return f"{self.signed_as or self.service}:{self.operation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A GET request."""

    url: str = "{id}"  # `${NAME}` is taken from the environment
    divider: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # `${NAME}` is taken from the environment

    @property
    def name(self) -> str:
        return "http:GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The steps of a job, which are shown and never decide: only the job's own status does."""

    at: str  # path to the list
    name: str
    status: str
    statuses: StatusTable
    reason: str | None = None
    left_out: frozenset[str] = frozenset()  # names that are no steps
    call: AwsCall | None = None  # where they are asked for, if not in the answer about the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that is done to something that lasts, such as the update of a stack."""

    name: str
    statuses: frozenset[str]  # that are said while it is done or when it has ended, as `normal` writes them
    since: str  # path to what tells it from others of its kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """How one outside system is asked about its jobs."""

    name: str
    about: str = ""
    call: AwsCall | HttpCall
    status: str | None  # path; None (HTTP): `status` or `state` of a JSON object
    statuses: StatusTable
    outcome: tuple[str, ...] = ()  # paths to what qualifies the status; () (HTTP): fields of the usual names
    reason: tuple[str, ...] = ()  # paths, joined
    cancelled: tuple[str, ...] = ()  # paths that are true if a failure was a cancellation
    stage: str | None = None  # path to a second word; those in `waiting` say that it has not begun
    waiting: frozenset[str] = frozenset()
    items: Items | None = None
    began: str | None = None  # path to a time
    plan: str | None = None  # path to what all runs of this kind share
    own_id: str | None = None  # path to an id that no later job will have
    since: str | None = None  # path to what tells a second run of the same id from the first
    operations: tuple[Operation, ...] = ()
    repeats: bool = False  # the same id may mean a new job tomorrow, and nothing tells them apart
    pending_seconds: float | None = None  # between polls; None: as for all executions
    running_seconds: float | None = None
    deadline_seconds: float | None = None
    id_shape: str | None = None  # a regular expression that every id matches; None: any text may be one
    prefix: str = ""  # before an id, in what people type and in the execution's id


def normalize(word: object) -> str:
    """A word as tables have it: `In Progress` is `in_progress`, and a JSON true is `true`."""
    return str(word).strip().casefold().replace("-", "_").replace(" ", "_")


def statuses(**meant: str) -> dict[str, Meaning]:
    """A table of words: `words(failed="FAILED TIMED_OUT")`."""
    return {normalize(word): Meaning(meaning) for meaning, said in meant.items() for word in said.split()}
