"""Opening ``s3://`` URLs: obstore where it can be used, else s3fs.

obstore needs between a tenth and nine tenths of s3fs's time (``tests/benchmarks/s3_clients.py`` measures it), so it
comes first. It does not know every way of getting credentials that boto has (profiles with roles, single sign-on,
external programs); where one of those is needed, s3fs does the work.
"""

from __future__ import annotations

import configparser
import os
from typing import Any

from nczarr.errors import NCZarrError, StoreError
from nczarr.stores.base import Store

# What s3fs and boto call an option, and what obstore does.
_NAMES = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "region_name": "region",
    "anon": "skip_signature",
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
# Options that mean something to obstore; any other sends the request to s3fs.
_KNOWN = {*_NAMES.values(), "virtual_hosted_style_request", "checksum_algorithm", "request_payer"}
# With one of these in the environment, obstore obtains credentials by itself.
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def _profile(name: str) -> dict[str, str]:
    """Return what boto's files say about a profile."""
    found: dict[str, str] = {}
    for variable, default, section in (
        ("AWS_CONFIG_FILE", "~/.aws/config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(os.path.expanduser(os.environ.get(variable) or default), encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        if parser.has_section(section):
            found |= parser.items(section)
    return found


def s3_settings(storage_options: dict[str, Any]) -> dict[str, Any] | None:
    """Return obstore's configuration for options in s3fs's or obstore's names.

    Returns
    -------
    dict or None
        None if obstore cannot do what is asked, or would find no credentials.

    Examples
    --------
    >>> s3_settings({"anon": True, "client_kwargs": {"endpoint_url": "http://localhost:9000"}})
    {'skip_signature': True, 'endpoint': 'http://localhost:9000'}
    >>> s3_settings({"anon": True, "requester_pays_by_phone": True}) is None
    True
    """
    options = dict(storage_options)
    options |= options.pop("client_kwargs", None) or {}
    profile_name = options.pop("profile", None)
    settings = {_NAMES.get(name, name): value for name, value in options.items() if value is not None}
    if not settings.keys() <= _KNOWN:
        return None
    given = bool(settings.get("skip_signature") or settings.get("access_key_id"))
    if not given and (profile_name or not any(map(os.environ.get, _ENVIRONMENT))):
        profile = _profile(profile_name or os.environ.get("AWS_PROFILE") or "default")
        if not profile.keys() >= {"aws_access_key_id", "aws_secret_access_key"} or "role_arn" in profile:
            return None
        for name in (
            "aws_access_key_id",
            "aws_secret_access_key",
            "aws_session_token",
            "region",
            "endpoint_url",
        ):
            if name in profile:
                settings.setdefault(_NAMES.get(name, name), profile[name])
    return settings


def open_s3(url: str, *, writable: bool, storage_options: dict[str, Any] | None = None) -> Store | None:
    """Return an obstore-backed store for an ``s3://`` URL, None if s3fs has to do it.

    Parameters
    ----------
    url : str
        ``s3://BUCKET/KEY``.
    writable : bool
    storage_options : dict, optional
        s3fs's names (``key``, ``secret``, ``token``, ``anon``, ``endpoint_url``, ``client_kwargs``, ``profile``)
        or obstore's. ``client_options`` and ``retry_config`` go to obstore as they are. ``backend="s3fs"`` or
        ``backend="obstore"`` insists on one of the two. What is not given comes from the usual ``AWS_…``
        variables and files.

    Raises
    ------
    StoreError
        The URL has no bucket, or an option is not accepted.
    NCZarrError
        Neither obstore nor s3fs is installed.
    """
    bucket, _, prefix = url.split("://", 1)[1].partition("/")
    if not bucket:
        raise StoreError("there is no bucket in the URL", path=url)
    options = dict(storage_options or {})
    backend = options.pop("backend", None)
    client_options = dict(options.pop("client_options", None) or {})
    retry_config = options.pop("retry_config", None)
    if backend not in (None, "s3fs", "obstore"):
        raise StoreError(f"backend must be 's3fs' or 'obstore', not {backend!r}", path=url)
    have_s3fs = _importable("s3fs")
    if not _importable("obstore"):
        if backend == "obstore" or not have_s3fs:
            raise NCZarrError("no S3 client is installed", path=url, hint="pip install nczarr[s3]")
        return None
    settings = s3_settings(options)
    if backend == "s3fs" or (settings is None and have_s3fs and backend is None):
        return None
    if settings is None:
        settings = {_NAMES.get(name, name): value for name, value in options.items()}

    from obstore.store import S3Store

    from nczarr.stores.remote.obstore_store import ObstoreStore

    endpoint = (
        settings.get("endpoint")
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
    )
    if endpoint:
        settings["endpoint"] = endpoint
        if str(endpoint).startswith("http://"):
            client_options.setdefault("allow_http", True)
    try:
        client = S3Store(
            bucket,
            config=settings,  # type: ignore[arg-type]
            client_options=client_options,  # type: ignore[arg-type]
            retry_config=retry_config,
        )
    except Exception as error:
        raise StoreError(f"cannot open: {error}", path=url) from error
    return ObstoreStore(client, prefix.rstrip("/"), url=url, writable=writable)


def _importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
