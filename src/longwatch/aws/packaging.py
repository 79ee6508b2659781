"""The code for Lambda as one zip file, and the state machine beside it, under names made from their content.

The same source gives the same bytes on every machine: names are sorted, times are fixed, and nothing is
compressed, because compressors differ. A changed name makes CloudFormation deploy the new code.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from longwatch.errors import InvalidInput

PACKAGE = Path(__file__).resolve().parents[1]
# None of these runs in Lambda. The templates exist in a wheel only, and would change the bytes.
LEFT_OUT = frozenset({"cli", "remote", "infrastructure", "server", "testing", "__pycache__"})
SUFFIXES = frozenset({".py", ".sql", ".json", ".toml", ".typed"})
MACHINE = "session-journal.asl.json"
DIGEST_DIGITS = 12
FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip file


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file for the bucket."""

    name: str
    content: bytes


def code() -> Artifact:
    """longwatch itself, without third-party code: Lambda's Python has boto3."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(PACKAGE.rglob("*")):
            inside = path.relative_to(PACKAGE)
            if not path.is_file() or path.suffix not in SUFFIXES or LEFT_OUT & set(inside.parts):
                continue
            entry = zipfile.ZipInfo(f"longwatch/{inside.as_posix()}", date_time=FIRST_DAY)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, so that its file modes are read
            archive.writestr(entry, path.read_bytes())
    return _named("longwatch", ".zip", buffer.getvalue())


def machine() -> Artifact:
    """The definition of the session journal's state machine."""
    return _named("session-journal", ".asl.json", (infrastructure() / MACHINE).read_bytes())


def infrastructure() -> Path:
    """The folder with the templates: in a wheel inside the package, in a checkout beside its source."""
    for folder in (PACKAGE / "infrastructure", PACKAGE.parents[1] / "infrastructure"):
        if (folder / MACHINE).is_file():
            return folder
    raise InvalidInput("The templates are not installed. Install longwatch from its wheel or a checkout.")


def split_s3_url(url: str) -> tuple[str, str]:
    """Bucket and prefix of `s3://bucket/prefix`."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or not bucket:
        raise InvalidInput(f"Invalid S3 URL {url!r}. Use s3://BUCKET or s3://BUCKET/PREFIX.")
    return bucket, prefix.strip("/")


def upload(client: Any, artifact: Artifact, bucket: str, prefix: str) -> str:
    """Put the file into the bucket, and return its key."""
    key = f"{prefix}/{artifact.name}" if prefix else artifact.name
    client.put_object(Bucket=bucket, Key=key, Body=artifact.content)
    return key


def _named(stem: str, suffix: str, content: bytes) -> Artifact:
    return Artifact(f"{stem}-{sha256(content).hexdigest()[:DIGEST_DIGITS]}{suffix}", content)
