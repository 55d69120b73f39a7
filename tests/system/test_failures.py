"""Recognise the causes of failed requests by the exceptions of clients, whatever their messages say."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nczarr.system.failures import is_unreached, lacks_bucket, may_mean_missing, reason_of


def service(code: str) -> Exception:
    """The exception of botocore for a code of a service, with another text than today."""
    botocore = pytest.importorskip("botocore.exceptions")
    error: Exception = botocore.ClientError({"Error": {"Code": code, "Message": "…"}}, "GetObject")
    error.args = ("…",)
    return error


def botocore(name: str) -> Exception:
    class_ = getattr(pytest.importorskip("botocore.exceptions"), name)
    error: Exception = class_(endpoint_url="http://h:9", error="…")
    error.args = ("…",)
    return error


def obstore(name: str) -> Exception:
    error: Exception = getattr(pytest.importorskip("obstore.exceptions"), name)("…")
    return error


def aiohttp(name: str, cause: OSError) -> Exception:
    """An exception of aiohttp for an error of the system."""
    module = pytest.importorskip("aiohttp")
    key: Any = SimpleNamespace(host="h", port=9, ssl=True, is_ssl=True)
    error: Exception = getattr(module, name)(key, cause)
    return error


def answered(status: int) -> Exception:
    error: Exception = pytest.importorskip("aiohttp").ClientResponseError(
        SimpleNamespace(real_url="…"), (), status=status, message="…"
    )
    error.args = ("…",)
    return error


REFUSED, NO_BUCKET, UNREACHED = "refuses access", "no such bucket", "cannot be reached"
CERTIFICATE, SILENT, REGION = "certificate", "does not answer in time", "another region"
CAUSES: list[tuple[Callable[[], Exception], str]] = [
    (lambda: service("NoSuchBucket"), NO_BUCKET),
    (lambda: service("PermanentRedirect"), REGION),
    (lambda: botocore("EndpointConnectionError"), UNREACHED),
    (lambda: botocore("ConnectTimeoutError"), SILENT),
    (lambda: botocore("ReadTimeoutError"), SILENT),
    (lambda: botocore("SSLError"), CERTIFICATE),
    (lambda: obstore("PermissionDeniedError"), REFUSED),
    (lambda: obstore("UnauthenticatedError"), REFUSED),
    (lambda: aiohttp("ClientConnectorError", OSError(errno.ECONNREFUSED, "…")), UNREACHED),
    (lambda: aiohttp("ClientConnectorDNSError", OSError(-2, "…")), UNREACHED),
    (lambda: aiohttp("ClientConnectorCertificateError", ssl.SSLCertVerificationError("…")), CERTIFICATE),
    (lambda: pytest.importorskip("aiohttp").SocketTimeoutError("…"), SILENT),
    (lambda: answered(403), REFUSED),
    (lambda: answered(401), REFUSED),
    (lambda: PermissionError("…"), REFUSED),
    (lambda: ConnectionRefusedError("…"), UNREACHED),
    (lambda: socket.gaierror("…"), UNREACHED),
    (lambda: OSError(errno.ENETUNREACH, "…"), UNREACHED),
    (lambda: OSError(errno.ETIMEDOUT, "…"), SILENT),
]


@pytest.mark.parametrize("is_a_cause", [False, True])
@pytest.mark.parametrize(("make", "reason"), CAUSES)
def test_the_class_of_an_exception_tells_the_cause(
    make: Callable[[], Exception], reason: str, is_a_cause: bool
) -> None:
    """Also where the client, as fsspec does, hides it behind an exception of its own."""
    error = make()
    if is_a_cause:
        hiding = FileNotFoundError("…")
        hiding.__cause__ = error
        error = hiding
    assert reason in reason_of(error)[0]
    assert lacks_bucket(error) == (reason == NO_BUCKET)
    assert not is_unreached(error) or reason in (UNREACHED, SILENT, CERTIFICATE)
    assert is_unreached(error) or reason not in (UNREACHED, SILENT)


def test_only_a_plain_refusal_may_mean_a_missing_key() -> None:
    assert may_mean_missing(service("AccessDenied"))
    assert not may_mean_missing(service("SignatureDoesNotMatch"))
    assert not may_mean_missing(service("ExpiredToken"))
