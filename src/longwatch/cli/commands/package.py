"""`longwatch package`: build the files that the templates deploy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longwatch.cli.options import common_options, output_option
from longwatch.cli.render.terminal import remark, write_document, write_text
from longwatch.errors import InvalidInput
from longwatch.storage.aws import core_session, make_client, new_session

if TYPE_CHECKING:
    from longwatch.aws.packaging import Artifact


@click.command()
@click.option(
    "-d",
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("longwatch-package"),
    show_default=True,
    help="Output directory; created if missing.",
)
@click.option(
    "--upload", "s3_url", metavar="S3-URL", help="Also upload them: s3://BUCKET or s3://BUCKET/PREFIX."
)
@click.option("--endpoint", metavar="URL", help="S3 endpoint URL, such as that of a local emulator.")
@output_option()
@common_options
def command(directory: Path, s3_url: str | None, endpoint: str | None, output: str) -> None:
    """Build the Lambda code and the state machine.

    File names derive from the content: the same source gives the same names and bytes, and a change gives
    new ones. Prints the parameters of the templates.
    """
    from longwatch.aws.packaging import code, infrastructure, machine, split_s3_url

    artifacts = {"CodeKey": code(), "DefinitionKey": machine()}
    target = split_s3_url(s3_url) if s3_url is not None else None
    directory.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts.values():
        path = directory / artifact.name
        path.write_bytes(artifact.content)
        remark(f"{path}  {len(artifact.content):,} bytes")
    if target is None:
        remark(f"Upload them with --upload s3://BUCKET/PREFIX. The templates are in {infrastructure()}.")
        _write({name: artifact.name for name, artifact in artifacts.items()}, output)
        return
    bucket, prefix = target
    client = make_client(new_session(core_session("Uploading to S3")), "s3", endpoint=endpoint)
    keys = {name: _upload(client, artifact, bucket, prefix) for name, artifact in artifacts.items()}
    _write({"CodeBucket": bucket, **keys}, output)


def _write(parameters: Mapping[str, str], output: str) -> None:
    if output != "text":
        write_document(parameters, output)
        return
    for name, value in parameters.items():
        write_text(f"{name}={value}")


def _upload(client: Any, artifact: Artifact, bucket: str, prefix: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError

    from longwatch.aws.packaging import upload

    try:
        return upload(client, artifact, bucket, prefix)
    except (BotoCoreError, ClientError) as error:
        raise InvalidInput(
            f"{artifact.name} could not be uploaded to s3://{bucket}/{prefix} ({error}). Check the bucket's "
            "name and that this profile may write to it."
        ) from error
