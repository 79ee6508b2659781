"""Clients for sources in this account, and in others by assuming a role that has the same name in each.

Without such a role a job of another account is a problem that is told, never a job that is missing: the
account at hand would say so of every job that is not its own.
"""

from __future__ import annotations

from typing import Any

from longwatch.executions.sources.aws import ConnectClient, client_config, client_of

SESSION_NAME = "longwatch-poller"  # what CloudTrail of the other account shows


def connecting(role_name: str | None, own_account: str | None) -> ConnectClient:
    """Makes clients: of this account, or with the role of this name in another one."""

    def connect(service: str, region: str | None, account: str | None) -> Any:
        import boto3
        from botocore.exceptions import CredentialRetrievalError

        session: Any = boto3.Session()  # which services there are is not known to its types
        if account is not None and account != own_account:
            if not role_name:
                raise CredentialRetrievalError(
                    provider="longwatch",
                    error_msg=f"account {account} needs a role; deploy infrastructure/executions.yaml with "
                    "AssumeRoleName",
                )
            partition = session.get_partition_for_region(region or session.region_name)
            session = assumed(f"arn:{partition}:iam::{account}:role/{role_name}")
        return client_of(session, service, region)

    return connect


def assumed(role_arn: str) -> Any:
    """A boto3 session with this role. Its credentials are fetched when first used, and anew before they end.

    A container lives longer than the hour for which they hold.
    """
    import boto3
    import botocore.session
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    own, other = botocore.session.Session(), botocore.session.Session()
    own.set_default_client_config(client_config())  # an STS that hangs must not take all of a poll's time
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=own.create_client,
        source_credentials=own.get_credentials(),
        role_arn=role_arn,
        extra_args={"RoleSessionName": SESSION_NAME},
    )
    renewed = DeferredRefreshableCredentials(method="assume-role", refresh_using=fetcher.fetch_credentials)
    other._credentials = renewed  # type: ignore[attr-defined]  # there is no other way to hand them over
    return boto3.Session(botocore_session=other)
