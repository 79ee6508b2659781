"""Clients for sources in this account, and in others by assuming a role that has the same name in each.

Without such a role a job of another account is a problem that is told, never a job that is missing: the
account at hand would say so of every job that is not its own.
"""

from __future__ import annotations

from typing import Any

from longwatch.executions.sources.aws import OPTIONS, ConnectClient
from longwatch.storage.aws import core_session, make_client, new_session, role_session

SESSION_NAME = "longwatch-poller"  # what CloudTrail of the other account shows


def account_clients(role_name: str | None, own_account: str | None) -> ConnectClient:
    """Makes clients: of this account, or with the role of this name in another one."""

    def connect(service: str, region: str | None, account: str | None) -> Any:
        session = new_session(core_session(f"Asking {service}"))
        if account is not None and account != own_account:
            if not role_name:
                from botocore.exceptions import CredentialRetrievalError

                raise CredentialRetrievalError(
                    provider="longwatch",
                    error_msg=f"account {account} needs a role; deploy infrastructure/executions.yaml with "
                    "AssumeRoleName",
                )
            partition = session.get_partition_for_region(region or session.region_name)
            role_arn = f"arn:{partition}:iam::{account}:role/{role_name}"
            session = role_session(role_arn, session_name=SESSION_NAME, options=OPTIONS)
        return make_client(session, service, region=region, options=OPTIONS)

    return connect
