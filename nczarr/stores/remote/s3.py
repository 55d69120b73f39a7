"""Open ``s3://`` URLs: with obstore if possible, else with s3fs.

obstore comes first, because it needs between a tenth and nine tenths of s3fs's time
(``tests/benchmarks/s3_clients.py`` measures it). boto finds the credentials that obstore does not search for: profiles,
roles, single sign-on, external programs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cache, partial
from typing import Any

from nczarr.errors import NCZarrError, StoreError, error_context
from nczarr.stores.remote.concurrent import ConcurrentStore
from nczarr.system.environment import limit
from nczarr.targets import S3FS_NAMES, s3_endpoint, s3fs_options
from nczarr.text import missing_package

ClientOptions = dict[str, Any]
"""Options of a client."""

#: Option names of s3fs and boto, and obstore's names.
_NAMES = {theirs: name for name, theirs in S3FS_NAMES.items() if name != theirs}
#: Options of obstore; any other option selects s3fs.
_KNOWN = {*_NAMES.values(), "virtual_hosted_style_request", "checksum_algorithm"}
#: obstore obtains credentials from these environment variables. Of AWS_CONTAINER_CREDENTIALS_FULL_URI, it knows one of
#: two forms.
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
#: With obstore's retries, a server that refuses every second request does not stop a copy.
_BACKOFF = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1.5), "base": 2}


def s3_settings(storage_options: Mapping[str, Any]) -> ClientOptions | None:
    """Return obstore's configuration for options with names of s3fs or obstore; None if it lacks one of them.

    Examples
    --------
    >>> s3_settings({"anon": True, "client_kwargs": {"endpoint_url": "http://localhost:9000"}})
    {'skip_signature': True, 'endpoint': 'http://localhost:9000'}
    >>> s3_settings({"anon": True, "requester_pays_by_phone": True}) is None
    True
    """
    options = dict(storage_options)
    options |= options.pop("client_kwargs", None) or {}
    names = {name: name.removeprefix("aws_") for name in options}
    settings = {
        _NAMES.get(names[name], names[name]): value for name, value in options.items() if value is not None
    }
    return settings if settings.keys() <= _KNOWN else None


def boto_settings(
    settings: ClientOptions, profile: str | None, *, with_credentials: bool = True
) -> ClientOptions | None:
    """Add credentials of boto, and the region and endpoint of the profile and its section of services.

    Returns
    -------
    dict or None
        None if boto is not installed, or finds no credentials.

    Raises
    ------
    StoreError
        If the profile does not exist, or boto's files are damaged.
    """
    if not _importable("boto3"):
        return None
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = Session(profile=profile)
    try:
        found: ClientOptions = {}
        if with_credentials:
            found["credential_provider"] = Boto3CredentialProvider(session)
        scoped = session.get_scoped_config()
        services = session.full_config.get("services", {}).get(scoped.get("services"), {})
        found["region"] = session.get_config_variable("region")
        found["endpoint"] = s3_endpoint() or services.get("s3", {}).get("endpoint_url")
        found["endpoint"] = found["endpoint"] or scoped.get("endpoint_url")
    # boto is there, and finds no credentials: s3fs asks other sources, and names what is missing.
    except ValueError:
        return None
    except BotoCoreError as error:
        raise StoreError(f"cannot find credentials: {error}") from error
    return {name: value for name, value in found.items() if value} | settings


def open_s3(
    url: str, *, writable: bool, storage_options: Mapping[str, object] | None = None
) -> ConcurrentStore:
    """Open an ``s3://`` URL, with obstore if possible.

    Options have s3fs's names (``key``, ``secret``, ``token``, ``anon``, ``endpoint_url``, ``client_kwargs``,
    ``profile``) or of obstore. ``client_options`` and ``retry_config`` go to obstore unchanged; without them, a request
    without an answer fails after ``NCZARR_ANSWER_SECONDS``. ``backend="s3fs"`` or ``backend="obstore"`` selects one of
    the two. Other settings come from the usual ``AWS_…`` variables and files.

    Raises
    ------
    StoreError
        If the URL has no bucket, or an option is invalid.
    NCZarrError
        If neither obstore nor s3fs is installed.
    """
    bucket = url.split("://", 1)[1].partition("/")[0]
    if not bucket:
        raise StoreError("there is no bucket in the URL", path=url)
    # A password in a URL would appear in messages, histories and logs, and S3 clients take it for a bucket.
    if "@" in bucket or (":" in bucket and not bucket.startswith("arn:")):
        raise StoreError(
            "the URL has more than the bucket before its path, and S3 clients read no credentials from there",
            path=url,
            hint="pass them as options (key, secret), or in the AWS_… variables",
        )
    options = dict(storage_options or {})
    backend = options.pop("backend", None)
    if backend not in (None, "s3fs", "obstore"):
        raise StoreError(f"backend must be 's3fs' or 'obstore', not {backend!r}", path=url)
    only = backend == "obstore" or not _importable("s3fs")
    store: ConcurrentStore | None = None
    if not _importable("obstore"):
        if only:
            raise NCZarrError(
                "no S3 client is installed", path=url, hint=missing_package("obstore s3fs", "s3")
            )
    elif backend != "s3fs":
        store = _open_obstore(url, options, writable, only=only)
    return store or _open_s3fs(url, options, writable)


def _open_s3fs(url: str, options: ClientOptions, writable: bool) -> ConcurrentStore:
    from nczarr.stores.remote.fsspec_store import FsspecStore, file_system

    options = s3fs_options(options)
    # botocore's defaults, ten connections and five attempts, are too few for batches and for busy servers.
    options["config_kwargs"] = {
        "max_pool_connections": 64,
        "retries": {"mode": "standard", "max_attempts": 16},
        **(options.get("config_kwargs") or {}),
    }
    return FsspecStore(*file_system(url, options), url=url, writable=writable)


def _open_obstore(url: str, options: ClientOptions, writable: bool, *, only: bool) -> ConcurrentStore | None:
    """Open with obstore. Return None if that needs s3fs, and not `only` obstore is allowed."""
    from obstore.store import S3Store

    from nczarr.stores.remote.obstore_store import ObstoreStore, is_usable

    if not only and not is_usable():
        return None
    bucket, _, prefix = url.split("://", 1)[1].partition("/")
    # S3 and s3fs have such keys; obstore would ask for another one.
    if "//" in prefix.rstrip("/") or prefix.startswith("/"):
        if only:
            raise StoreError(
                "obstore has no keys with an empty part", path=url, hint=missing_package("s3fs", "s3")
            )
        return None
    again = partial(open_s3, url, writable=writable, storage_options=dict(options))
    options = dict(options)
    # No try begins after that time; the last one may take as long again.
    patience = timedelta(seconds=limit("NCZARR_ANSWER_SECONDS"))
    client_options = {"timeout": patience, **(options.pop("client_options", None) or {})}
    retries = {"max_retries": 16, "retry_timeout": patience, "backoff": _BACKOFF}
    retry_config = options.pop("retry_config", None) or retries
    profile = options.pop("profile", None)
    settings = s3_settings(options)
    if settings is None:
        if not only:
            return None
        settings = {_NAMES.get(name, name): value for name, value in options.items()}
    with error_context(url):
        settings = _with_profile(settings, profile, only=only)
    if settings is None:
        return None
    provider = settings.pop("credential_provider", None)
    settings |= _location(settings, bucket)
    if str(settings.get("endpoint", "")).startswith("http://"):  # obstore refuses them unless that is allowed
        client_options.setdefault("allow_http", True)
    try:
        client = S3Store(
            bucket,
            config=settings,  # type: ignore[arg-type]
            client_options=client_options,  # type: ignore[arg-type]
            retry_config=retry_config,  # type: ignore[arg-type]
            credential_provider=provider,
        )
    except Exception as error:
        raise StoreError(f"cannot open: {error}", path=url) from error
    return ObstoreStore(client, prefix.rstrip("/"), url=url, writable=writable, again=again)


def _with_profile(settings: ClientOptions, profile: str | None, *, only: bool) -> ClientOptions | None:
    """Add credentials, region and endpoint of the user's profile, where options and environment leave them open.

    Return None if neither boto nor obstore finds credentials, so that s3fs has to, and not `only` obstore is allowed.
    """
    given = settings.get("skip_signature") or settings.get("access_key_id")
    if not given and (profile or not any(map(os.environ.get, _ENVIRONMENT))):
        found = boto_settings(settings, profile)
        return settings if found is None and only else found
    # The import of boto takes half a second, so only a file of settings is a reason to ask it.
    if not settings.keys() >= {"region", "endpoint"} and os.path.exists(_config_file()):
        return boto_settings(settings, None, with_credentials=False) or settings
    return settings


def _location(settings: ClientOptions, bucket: str) -> ClientOptions:
    """Return the endpoint, or the region of the bucket, without which obstore asks the wrong server of AWS."""
    if endpoint := settings.get("endpoint") or s3_endpoint():
        return {"endpoint": endpoint}
    if settings.get("region") or any(map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION"))):
        return {}
    return {"region": bucket_region(f"https://s3.amazonaws.com/{bucket}")}


def _config_file() -> str:
    return os.environ.get("AWS_CONFIG_FILE") or os.path.expanduser("~/.aws/config")


@cache
def bucket_region(address: str) -> str:
    """Return the region of the bucket at an address of S3, which S3 tells without credentials.

    Examples
    --------
    >>> bucket_region("http://127.0.0.1:1/no-server-here")
    'us-east-1'
    """
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=limit("NCZARR_ANSWER_SECONDS")) as answer:
            headers = answer.headers
    except HTTPError as error:  # the answer to a request without credentials has the region, too
        headers = error.headers
    except (URLError, OSError):  # the first request reports it
        return "us-east-1"
    return headers.get("x-amz-bucket-region") or "us-east-1"


def _importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
