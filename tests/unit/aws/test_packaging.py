"""The zip file for Lambda."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from longwatch.aws import packaging
from longwatch.aws.packaging import code, infrastructure, machine, split_s3_url
from longwatch.errors import InvalidInput


def test_the_same_source_gives_the_same_bytes() -> None:
    assert code() == code()


def test_a_wheel_which_has_the_templates_inside_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "longwatch"
    (source / "aws").mkdir(parents=True)
    (source / "aws" / "poller.py").write_text("handler = print\n", encoding="utf-8")
    monkeypatch.setattr(packaging, "PACKAGE", source)
    in_a_checkout = code()

    (source / "infrastructure").mkdir()
    (source / "infrastructure" / packaging.MACHINE).write_text("{}", encoding="utf-8")

    assert code() == in_a_checkout


def test_the_name_is_made_from_the_content() -> None:
    artifact = code()

    assert artifact.name.startswith("longwatch-")
    assert artifact.name.endswith(".zip")
    assert len(artifact.name) == len("longwatch-") + 12 + len(".zip")


def test_the_archive_holds_what_runs_in_lambda_and_nothing_else() -> None:
    names = zipfile.ZipFile(io.BytesIO(code().content)).namelist()

    assert "longwatch/aws/invoker.py" in names
    assert "longwatch/journal/dynamodb/journal.py" in names
    assert names == sorted(names)
    assert not [name for name in names if name.startswith(("longwatch/cli/", "longwatch/server/"))]
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize("name", ["invoker", "finder", "poller"])
def test_a_handler_loads_from_the_zip_alone(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "code.zip"
    archive.write_bytes(code().content)
    script = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import longwatch.aws.{name} as loaded; "
        "print(loaded.__file__)"
    )

    result = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True)

    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(str(archive))


def test_the_state_machine_is_beside_its_template() -> None:
    assert machine().content == (infrastructure() / "session-journal.asl.json").read_bytes()
    assert (infrastructure() / "session-journal.yaml").is_file()


@pytest.mark.parametrize(
    ("url", "location"),
    [("s3://bucket", ("bucket", "")), ("s3://bucket/a/b/", ("bucket", "a/b"))],
)
def test_an_s3_location_is_a_bucket_and_a_prefix(url: str, location: tuple[str, str]) -> None:
    assert split_s3_url(url) == location


@pytest.mark.parametrize("url", ["", "bucket", "s3://", "s3:///key", "https://bucket"])
def test_anything_else_is_refused_with_what_to_write(url: str) -> None:
    with pytest.raises(InvalidInput, match="s3://BUCKET"):
        split_s3_url(url)
