"""URLs of buckets: one spelling, no secrets."""

from __future__ import annotations

import pytest

from vcache_cli.buckets import Place, parse_place
from vcache_cli.buckets.place import redacted
from vcache_cli.errors import UsageError


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket/a/b.jpg", Place("s3", "bucket/a/b.jpg")),
        ("s3a://bucket/a/", Place("s3", "bucket/a", is_folder=True)),
        ("S3://Bucket/A", Place("s3", "Bucket/A")),
        ("gcs://bucket", Place("gs", "bucket")),
        ("hf://datasets/user/name@main/x", Place("hf", "datasets/user/name@main/x")),
        ("file:///a/b/", Place("file", "/a/b", is_folder=True)),
        ("s3://bucket/a//b", Place("s3", "bucket/a//b")),
        ("s3://bucket/a::b", Place("s3", "bucket/a::b")),
        ("s3://bucket/what?.jpg", Place("s3", "bucket/what?.jpg")),
    ],
)
def test_a_url_is_a_place(url: str, place: Place) -> None:
    assert parse_place(url) == place
    assert parse_place(place.url).path == place.path


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///a",
        "file://a/b",
        "http://host/a.jpg",
        "simplecache::s3://bucket/a",
        "zip://a.zip",
        "github://owner:repo@main/x",
        "s3://id:secret@bucket/a",
        "s3://bucket/a?X-Amz-Signature=secret&X-Amz-Credential=secret",
        "az://bucket/a?sv=2024&sig=secret",
    ],
)
def test_what_is_no_place_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_place(url)
    assert "secret" not in refused.value.message + refused.value.hint


def test_secrets_in_a_librarys_message_are_hidden() -> None:
    told = "GET https://k:s3cr3t@host/a?AWSAccessKeyId=s3cr3t&Signature=s3cr3t&x-amz-token=s3cr3t"
    assert "s3cr3t" not in redacted(told)
    assert redacted("s3://bucket/photo@2x.jpg") == "s3://bucket/photo@2x.jpg"
