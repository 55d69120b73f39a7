"""Explain errors of the operating system, object stores and HTTP clients, and limit the time of requests."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from nczarr.errors import NCZarrError, StoreError
from nczarr.system.environment import limit

T = TypeVar("T")

#: Hints for errors of the operating system. Only ENOENT means that a file is missing.
_HINTS: dict[int | None, str] = {
    errno.ENAMETOOLONG: "the file system cannot hold so long a name",
    errno.ELOOP: "symbolic links form a loop",
    errno.EACCES: "the user lacks the permission",
    errno.ENXIO: "it may be a socket; a store has regular files only",
    errno.ENOTDIR: "a part of the key is itself a key",
    errno.EISDIR: "there are keys below this one",
    errno.ENOTEMPTY: "there are keys below this one",
    errno.ENOSPC: "the disk is full",
}
#: Errors of the folder in which a file is created.
_OF_THE_FOLDER = {errno.EACCES, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS}


class _Cause(NamedTuple):
    """The signs of one cause: classes of exceptions and error numbers, codes of services, and a text.

    The classes are names, because clients that are not used are not imported. The text serves clients with one
    exception for all causes (obstore, icechunk), whose messages alone tell them apart. Patterns stay text until the
    first error: compiling them takes longer than the rest of the import.
    """

    text: str
    classes: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    codes: frozenset[str] = frozenset()


_CODE = r"<Code>(\w+)</Code>|An error occurred \((\w+)\)"
_STATUS = r"(?:status code|status)[:= ]+(\d{3})(?: (\w[\w ]*))?"
_PLACE = r"https?://([^/\s\"'?]+)"
_HOST = r"connect to host (\S+)"
_REFUSED = _Cause(
    "AccessDenied|Access Denied|ExpiredToken|Forbidden|InvalidAccessKeyId|InvalidToken|PermissionDenied"
    "|SignatureDoesNotMatch|Unauthenticated|Unauthorized",
    frozenset({"PermissionError", "PermissionDeniedError", "UnauthenticatedError"}),
)
_NO_BUCKET = _Cause(
    "NoSuchBucket|ContainerNotFound|(?:bucket|container) does not exist",
    frozenset({"NoSuchBucket"}),
    codes=frozenset({"NoSuchBucket", "ContainerNotFound"}),
)
_OTHER_REGION = _Cause(
    "PermanentRedirect|redirect without LOCATION|the region '[^']*' is wrong",
    codes=frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed"}),
)
_UNREACHED = _Cause(
    "error sending request|dns error|Connection refused",
    frozenset({"ConnectionRefusedError", "gaierror", "ClientConnectorError", "EndpointConnectionError"}),
    frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN}),
)
_CERTIFICATE = _Cause(
    "InvalidCertificate|invalid peer certificate", frozenset({"SSLCertVerificationError", "SSLError"})
)
_SILENT = _Cause(
    "timed out",
    frozenset({"TimeoutError", "ConnectTimeoutError", "ReadTimeoutError"}),
    frozenset({errno.ETIMEDOUT}),
)
#: The frame that icechunk draws around its causes. It cuts long paths behind a slash.
_FRAME = r"(?<=/)\n\s*\|\s+|(?<=\n)\s*[|`](?:->)?"
#: The largest number of characters of an error's own text in a message.
_LONGEST = 600
_NO_ANSWER = "check the address and the network, or set NCZARR_ANSWER_SECONDS to a longer time"


def hint_for(error: BaseException, path: str = "") -> str | None:
    """Return what to do after an error of the operating system; None if nothing is known.

    Parameters
    ----------
    error : Exception
    path : str, optional
        The file or directory that could not be created. If it is not there, the hint names the folder that refuses it.

    Examples
    --------
    >>> hint_for(PermissionError(errno.EACCES, "Permission denied"))
    'the user lacks the permission'
    >>> hint_for(PermissionError(errno.EACCES, "Permission denied"), "/no/such/folder/a.nc")
    'nothing can be created in /; give a path in another folder'
    >>> hint_for(FileNotFoundError(errno.ENOENT, "No such file or directory"), "/no/such/folder/a.nc")
    'the folder /no/such/folder does not exist; create it, or give a path in another folder'
    """
    number = getattr(error, "errno", None)
    if not path or number not in _OF_THE_FOLDER or os.path.lexists(path):
        return _HINTS.get(number)
    folder = os.path.dirname(os.path.abspath(path))
    if number == errno.ENOENT and not os.path.lexists(folder):
        return f"the folder {folder} does not exist; create it, or give a path in another folder"
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{folder} is not a directory; give a path in another folder"
    return f"nothing can be created in {folder}; give a path in another folder"


def system_error(what: str, place: str, error: Exception, path: str = "") -> StoreError:
    """Return the error for a failed system call, or another failure to read or write a file.

    `path` is a file or directory that could not be created.
    """
    reason = getattr(error, "strerror", None) or error
    return StoreError(f"cannot {what}: {reason}", path=place, hint=hint_for(error, path))


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Name the path in the operating system's errors of a block that writes a file; errors of nczarr and of pipes stay.

    Examples
    --------
    >>> with writing("a.cdl"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    nczarr.errors.StoreError: a.cdl: cannot write: No space left on device (the disk is full)
    """
    try:
        yield
    # An error of the source while CDL is written was reported as 'cannot write: None'.
    except (NCZarrError, BrokenPipeError):
        raise
    except OSError as error:
        raise system_error("write", path, error, path) from error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _whole_text(error: BaseException) -> str:
    """Return the text of an error and all its causes, for searching."""
    return " ".join(f"{type(cause).__name__}: {cause}" for cause in _chain(error))


def _code_of(error: BaseException) -> str:
    """Return the code that a service has answered, such as ``NoSuchBucket``; empty if there is none."""
    for cause in _chain(error):
        response = getattr(cause, "response", None)  # botocore keeps the answer
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return next((a or b for a, b in re.findall(_CODE, _whole_text(error))), "")


def _status_of(error: BaseException) -> str:
    """Return the number of the status that a web server has answered; empty if there is none."""
    for cause in _chain(error):
        if isinstance(status := getattr(cause, "status", None), int):  # aiohttp keeps it
            return str(status)
    status = re.search(_STATUS, _whole_text(error))
    return status[1] if status else ""


def _is_caused(error: BaseException, by: _Cause) -> bool:
    """Return whether an error, or one of its causes, has a sign of a cause."""
    for cause in _chain(error):
        classes = {class_.__name__ for class_ in type(cause).__mro__}
        if classes & by.classes or getattr(cause, "errno", None) in by.numbers:
            return True
    code = _code_of(error)
    return code in by.codes or re.search(by.text, f"{code} {_whole_text(error)}") is not None


def lacks_bucket(error: BaseException) -> bool:
    """Return True if the cause of an error is a missing bucket, which Azure calls a container.

    Examples
    --------
    >>> lacks_bucket(OSError("<Code>NoSuchBucket</Code>")), lacks_bucket(OSError("<Code>NoSuchKey</Code>"))
    (True, False)
    >>> lacks_bucket(OSError("404: The specified container does not exist. <Code>ContainerNotFound</Code>"))
    True
    """
    return _is_caused(error, _NO_BUCKET)


def may_mean_missing(error: BaseException) -> bool:
    """Return True if an error refuses access as S3 does for missing keys that the client may not list.

    Examples
    --------
    >>> may_mean_missing(PermissionError("<Code>AccessDenied</Code>"))
    True
    >>> may_mean_missing(OSError("An error occurred (SignatureDoesNotMatch) when calling the GetObject operation"))
    False
    """
    text = f"{_code_of(error)} {_whole_text(error)}"
    refused = isinstance(error, PermissionError) or re.search(
        "AccessDenied|Access Denied|Forbidden|403", text
    )
    return bool(refused) and not re.search("Signature|InvalidAccessKeyId|Expired|InvalidToken", text)


def is_unreached(error: BaseException) -> bool:
    """Return True if the cause of an error is an unreachable server; some clients report that as a missing file.

    Examples
    --------
    >>> is_unreached(ConnectionRefusedError("127.0.0.1:9")), is_unreached(FileNotFoundError("404"))
    (True, False)
    """
    return _is_caused(error, _UNREACHED) or _is_caused(error, _SILENT)


def reason_of(error: BaseException) -> tuple[str, str | None]:
    """Return the reason why a request failed, without internals of the client, and a hint or None.

    Examples
    --------
    >>> reason_of(OSError("GET http://127.0.0.1:9/b in 5 s - 404: <Code>NoSuchBucket</Code> Debug source: Generic {"))
    ('there is no such bucket', None)
    >>> reason_of(OSError("An error occurred (SignatureDoesNotMatch) when calling the GetObject operation"))
    ('the server refuses access (SignatureDoesNotMatch)', 'obtain access, or give credentials')
    >>> reason_of(OSError("GET http://127.0.0.1:9/b - HTTP error: error sending request"))[0]
    'the server 127.0.0.1:9 cannot be reached'
    >>> reason_of(ValueError("too large"))
    ('ValueError: too large', None)
    """
    text, code, number = _whole_text(error), _code_of(error), _status_of(error)
    if lacks_bucket(error):
        return "there is no such bucket", None
    if _is_caused(error, _OTHER_REGION):
        hint = "give the option region, or unset AWS_REGION and AWS_DEFAULT_REGION: then S3 is asked for it"
        return "the bucket is in another region", hint
    if _is_caused(error, _REFUSED) or number in ("401", "403"):
        refusal = re.search(_REFUSED.text, text)
        detail = code or (refusal[0] if refusal else "")
        detail = f" ({detail})" if detail else ""
        return f"the server refuses access{detail}", "obtain access, or give credentials"
    place = re.search(_PLACE, text) or re.search(_HOST, text)
    server = f"the server {place[1]}" if place else "the server"
    if _is_caused(error, _CERTIFICATE):
        hint = "check the address, or name the file of your authority in SSL_CERT_FILE and AWS_CA_BUNDLE"
        return f"the certificate of {server} is not valid here", hint
    # After a timeout, some clients also report that they could not send the request.
    if _is_caused(error, _SILENT):
        return f"{server} does not answer in time", _NO_ANSWER
    if _is_caused(error, _UNREACHED):
        return f"{server} cannot be reached", "check the address and the network"
    if code or number:
        return f"the server answers {' '.join(filter(None, (number, code)))}", None
    plain = re.sub(_FRAME, "", str(error).partition("Debug source")[0])
    plain = " ".join(plain.split()).rstrip(" :,-")
    if len(plain) > _LONGEST:  # the end names the object and the cause
        plain = f"{plain[: _LONGEST // 4]} … {plain[-_LONGEST * 3 // 4 :]}"
    return f"{type(error).__name__}: {plain}" if plain else type(error).__name__, None


async def in_time(request: Awaitable[T], fs: object, url: str) -> T:
    """Await the first request of an fsspec client with a timeout; without it, clients retry for many minutes.

    Raises
    ------
    StoreError
        If the request takes longer than ``NCZARR_ANSWER_SECONDS``.
    """
    import asyncio

    seconds = limit("NCZARR_ANSWER_SECONDS")
    try:
        return await asyncio.wait_for(request, seconds)
    except TimeoutError as error:
        meta = getattr(getattr(fs, "_s3", None), "meta", None)
        host = urlsplit(getattr(meta, "endpoint_url", None) or "").netloc.rpartition("@")[2]
        raise StoreError(
            f"the server{f' {host}' if host else ''} does not answer within {seconds} seconds",
            path=url,
            hint=_NO_ANSWER,
        ) from error
