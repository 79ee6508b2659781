"""A source as data: the call, where its response has the status, and what each status means.

    Declaration(
        name="builds",
        call=AwsCall(
            service="codebuild", operation="BatchGetBuilds", ids="ids", results="builds", key=("id",)
        ),
        status="buildStatus",
        statuses=statuses(running="IN_PROGRESS", succeeded="SUCCEEDED", failed="FAILED FAULT TIMED_OUT"),
    )

A status that is not in the table never ends a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Meaning(StrEnum):
    """What a status of a source means."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ENDED = "ended"  # over; `outcome` has the result, which is unknown without it

    @property
    def is_end(self) -> bool:
        return self not in (Meaning.PENDING, Meaning.RUNNING)


StatusTable = Mapping[str, Meaning]
"""Meanings by status, each normalized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCall:
    """An operation of an AWS service, named as in its API."""

    service: str  # boto3's name for it
    operation: str
    signed_as: str | None = None  # the service's name in policies, if it differs
    parameters: Mapping[str, str] = field(
        default_factory=dict
    )  # "{id}", or "{1}" and "{2}" of an id in parts
    divider: str | None = None  # between the parts of an id
    ids: str | None = None  # the parameter for a list of ids; then `parameters` are the same for all
    at_once: int = 1  # ids in one call
    results: str = ""  # path to the job: to a list of jobs if there is `key`
    key: tuple[str, ...] = ()  # paths to the id, in each result
    token: tuple[str, str] | None = None  # the parameter and the member of the page token
    unknown: tuple[tuple[str, str], ...] = ()  # error codes, and a part of their messages, for: no such id
    refused: frozenset[str] = frozenset()  # further error codes for: malformed id

    @property
    def name(self) -> str:
        """As in policies."""
        return f"{self.signed_as or self.service}:{self.operation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A GET request."""

    url: str = "{id}"  # `${NAME}` is read from the environment
    divider: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # `${NAME}` is read from the environment

    @property
    def name(self) -> str:
        return "http:GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """The steps of a job. They are shown and never decide: only the job's own status does."""

    at: str  # path to the list
    name: str
    status: str
    statuses: StatusTable
    reason: str | None = None
    left_out: frozenset[str] = frozenset()  # names that are not steps
    call: AwsCall | None = None  # that lists them, if the response about the job does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on a lasting resource, such as the update of a stack."""

    name: str
    statuses: frozenset[str]  # of the resource during and after the operation, normalized
    since: str  # path to a value that differs for each operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """How the jobs of one external system are polled."""

    name: str
    about: str = ""
    call: AwsCall | HttpCall
    status: str | None  # path; None (HTTP): `status` or `state` of a JSON object
    statuses: StatusTable
    outcome: tuple[
        str, ...
    ] = ()  # paths to fields that qualify the status; () (HTTP): fields with the usual names
    reason: tuple[str, ...] = ()  # paths, joined
    cancelled: tuple[str, ...] = ()  # paths that are true if a failure was a cancellation
    stage: str | None = None  # path to a second status; those in `waiting` mean that it has not begun
    waiting: frozenset[str] = frozenset()
    items: Items | None = None
    began: str | None = None  # path to a time
    plan: str | None = None  # path to a value that all runs of this kind share
    own_id: str | None = None  # path to an id that no later job has
    since: str | None = None  # path to a value that differs for each run of the same id
    operations: tuple[Operation, ...] = ()
    repeats: bool = False  # an id may name a new job later, and nothing distinguishes them
    pending_seconds: float | None = None  # between polls; None: as for all executions
    running_seconds: float | None = None
    deadline_seconds: float | None = None
    id_shape: str | None = None  # a regular expression that every id matches; None: any text
    prefix: str = ""  # of an id, on the command line and in the execution's id


def normalize(status: object) -> str:
    """A status as tables have it: `In Progress` is `in_progress`, and a JSON true is `true`."""
    return str(status).strip().casefold().replace("-", "_").replace(" ", "_")


def statuses(**by_meaning: str) -> dict[str, Meaning]:
    """A table of statuses: `statuses(failed="FAILED TIMED_OUT")`."""
    return {
        normalize(status): Meaning(meaning)
        for meaning, listed in by_meaning.items()
        for status in listed.split()
    }
