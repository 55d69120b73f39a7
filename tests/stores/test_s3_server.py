"""Test the promises of S3 on the S3 server of the tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.s3


def winners(s3_server: dict[str, str], key: str, **conditions: str) -> int:
    """Put an object from many threads under conditions; return how many puts succeed."""
    import boto3
    from botocore.exceptions import ClientError

    client = boto3.client("s3", endpoint_url=s3_server["AWS_ENDPOINT_URL"])

    def put(number: int) -> bool:
        try:
            client.put_object(Bucket="test", Key=key, Body=b"%d" % number, **conditions)
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        return sum(pool.map(put, range(64)))


def test_one_of_many_conditional_writes_succeeds(s3_server: dict[str, str]) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=s3_server["AWS_ENDPOINT_URL"])
    assert winners(s3_server, "conditions/new", IfNoneMatch="*") == 1
    tag = client.head_object(Bucket="test", Key="conditions/new")["ETag"]
    client.put_object(Bucket="test", Key="conditions/new", Body=b"other", IfMatch=tag)
    assert winners(s3_server, "conditions/new", IfMatch=tag) == 0
    tag = client.head_object(Bucket="test", Key="conditions/new")["ETag"]
    assert winners(s3_server, "conditions/new", IfMatch=tag) == 1


def test_ranges(s3_server: dict[str, str]) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=s3_server["AWS_ENDPOINT_URL"])
    client.put_object(Bucket="test", Key="ranges/a", Body=b"0123456789")
    for asked, body in (("bytes=2-4", b"234"), ("bytes=-3", b"789"), ("bytes=8-99", b"89")):
        answer = client.get_object(Bucket="test", Key="ranges/a", Range=asked)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert answer["Body"].read() == body
