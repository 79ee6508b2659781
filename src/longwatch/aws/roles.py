"""Clients for sources in this account, and in others by assuming a role that has the same name in each.

Without such a role a job of another account is reported as a problem and never as missing, which this account
would report for every job of another one.
"""

from __future__ import annotations

from typing import Any

from longwatch.executions.sources.aws import OPTIONS, ConnectClient
from longwatch.storage.aws import core_session, make_client, new_session, role_session

SESSION_NAME = "longwatch-poller"  # shown in CloudTrail of the other account


def account_clients(role_name: str | None, own_account: str | None) -> ConnectClient:
    """A function that makes clients for this account, or with the role of this name for another one."""

    def connect(service: str, region: str | None, account: str | None) -> Any:
        session = new_session(core_session(f"Polling {service}"))
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
