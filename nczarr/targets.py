"""Parse paths and URLs, including the URL fragments of netCDF-C."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import unquote, urlsplit

from nczarr.dataclass import dataclass
from nczarr.errors import StoreError
from nczarr.lazy import pattern

#: Options of the file system behind a URL, with fsspec's names.
StorageOptions = Mapping[str, Any]

# A single letter is a Windows drive, not a protocol.
_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.-]+(?=://|::)")
_FRAGMENT = pattern(r"#([A-Za-z0-9_.]+(?:=[^&#]*)?(?:&[A-Za-z0-9_.]+(?:=[^&#]*)?)*)\Z")
# URL protocols. With one slash missing, a URL such as ``s3:/bucket`` would be the path of a local directory ``s3:``.
_PROTOCOLS = (
    "abfs", "abfss", "adl", "az", "dav", "davs", "dropbox", "file", "filecache", "ftp", "gcs", "gdrive", "github", "gs",
    "hdfs", "hf", "http", "https", "lakefs", "memory", "oci", "oss", "reference", "s3", "s3a", "sftp", "simplecache",
    "smb", "ssh", "webdav", "webhdfs",
)  # fmt: skip
_LACKS_SLASH = pattern(rf"({'|'.join(_PROTOCOLS)}):(?!//|:)(/?)", re.IGNORECASE)
# Words that netCDF-C accepts as modes without ``mode=``.
_MODES = frozenset(
    {"bytes", "dap4", "file", "gs3", "nczarr", "noxarray", "s3", "xarray", "zarr", "zip", "consolidated"}
)


#: Options of obstore, which may begin with ``aws_``, and s3fs's names for them.
S3FS_NAMES = {
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "region": "region_name",
    "skip_signature": "anon",
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "request_payer": "requester_pays",
}
#: Options that only nczarr and obstore have.
_OF_OBSTORE = ("backend", "client_options", "retry_config", "checksum_algorithm")


@dataclass(frozen=True)
class Target:
    """A parsed path or URL.

    Parameters
    ----------
    location : str
        The path or URL without fragment.
    protocol : str
        ``"file"`` for paths and ``file://``; ``"s3"``, ``"https"``, ``"simplecache"`` and so on.
    fragment : dict of str to str
        The settings of a netCDF-C fragment such as ``#mode=nczarr,zip&aws.profile=x``.

    Examples
    --------
    >>> parse_target("s3://bucket/run42#mode=nczarr,s3").protocol
    's3'
    """

    location: str
    protocol: str = "file"
    fragment: dict[str, str] = field(default_factory=dict)

    @property
    def modes(self) -> frozenset[str]:
        """The words of the fragment's ``mode``.

        Examples
        --------
        >>> sorted(parse_target("file:///data/run42.zip#mode=nczarr,zip").modes)
        ['nczarr', 'zip']
        """
        return frozenset(
            word.strip().lower() for word in self.fragment.get("mode", "").split(",") if word.strip()
        )


def parse_target(target: str | os.PathLike[str]) -> Target:
    """Parse a path or URL.

    Text after ``#`` is a fragment only in a URL or if no local file has this name, and only if it has netCDF-C's
    syntax and a mode. The fragment may change the location: ``https://HOST/BUCKET/KEY#mode=s3`` becomes
    ``s3://BUCKET/KEY`` with the setting ``endpoint_url``.

    Raises
    ------
    StoreError
        If an HTTP URL has no host or an invalid host, or a URL lacks a slash (``s3:/bucket``).

    Examples
    --------
    >>> parse_target("out.zarr")
    Target(location='out.zarr', protocol='file', fragment={})
    >>> parse_target("file:///data/out.zarr#mode=nczarr,file").location
    '/data/out.zarr'
    >>> parse_target("s3://bucket/out.zarr#mode=nczarr,s3&aws.profile=x").fragment
    {'mode': 'nczarr,s3', 'aws.profile': 'x'}
    """
    text = os.fspath(target)
    check_slashes(text)
    if not isinstance(target, str):
        return Target(text)
    scheme = _SCHEME.match(text)
    fragment: dict[str, str] = {}
    found = _FRAGMENT.search(text)
    if found and (scheme or not os.path.exists(text)):
        settings = _settings(found[1])
        if "mode" in settings:
            fragment = settings
            text = text[: found.start()]
    if scheme is None:
        return Target(os.path.expanduser(text), "file", fragment)
    protocol = scheme[0].lower()
    if protocol == "file" and text[scheme.end() :].startswith("://"):
        return Target(_file_path(text[scheme.end() + 3 :]), "file", fragment)
    if protocol in ("http", "https"):
        _check_address(text)
        modes = Target("", "", fragment).modes
        if "s3" in modes:
            return _s3_target(text, fragment)
        text = text.split("#")[0]
    return Target(text, protocol, fragment)


def allowing(options: Mapping[str, Any] | None, allow: Any) -> dict[str, Any] | None:
    """Return storage options with additional allowed prefixes for references.

    Examples
    --------
    >>> allowing({"anon": True}, "/data"), allowing(None, ())
    ({'anon': True, 'allow': ['/data']}, None)
    """
    prefixes = [*allowed(options), *allowed({"allow": allow})]
    if not prefixes:
        return None if options is None else dict(options)
    return {**(options or {}), "allow": prefixes}


def allowed(options: Mapping[str, Any] | None) -> list[str]:
    """Return the allowed prefixes for references from storage options.

    Examples
    --------
    >>> allowed({"allow": "/data"}), allowed({"allow": ["/data", "https://host/"]}), allowed(None)
    (['/data'], ['/data', 'https://host/'], [])
    """
    prefixes = (options or {}).get("allow") or []
    if isinstance(prefixes, str | os.PathLike):
        prefixes = [prefixes]
    return [os.fspath(prefix) for prefix in prefixes]


def client_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return storage options for the client of the store, without nczarr's own options.

    Examples
    --------
    >>> client_options({"anon": True, "allow": ["/data"]})
    {'anon': True}
    """
    return {name: value for name, value in (options or {}).items() if name != "allow"}


def fsspec_options(url: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return storage options for the file system of fsspec behind a URL.

    Examples
    --------
    >>> fsspec_options("s3://b/k.nc", {"anon": True, "endpoint": "http://localhost:9000", "backend": "obstore"})
    {'anon': True, 'endpoint_url': 'http://localhost:9000'}
    """
    return s3fs_options(options) if url.startswith(("s3:", "s3a:")) else client_options(options)


def s3_endpoint() -> str | None:
    """Return the endpoint of S3 in the environment."""
    # fsspec keeps clients by their options: with another variable, a program went on with its first server.
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def s3fs_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return storage options for s3fs, without those of nczarr and obstore.

    The endpoint of the environment becomes an option: for equal options fsspec returns an earlier client, even if the
    environment named another server then.

    Examples
    --------
    >>> s3fs_options({"backend": "s3fs", "region_name": "eu-north-1", "endpoint_url": "http://localhost:9000"})
    {'endpoint_url': 'http://localhost:9000', 'client_kwargs': {'region_name': 'eu-north-1'}}
    """
    options = client_options(options)
    named = {S3FS_NAMES.get(name.removeprefix("aws_"), name): value for name, value in options.items()}
    kept = {name: value for name, value in named.items() if name not in _OF_OBSTORE}
    arguments = dict(kept.pop("client_kwargs", None) or {})
    if "region_name" in kept:
        arguments.setdefault("region_name", kept.pop("region_name"))
    endpoint = arguments.pop("endpoint_url", None) or kept.pop("endpoint_url", None) or s3_endpoint()
    if endpoint:
        kept["endpoint_url"] = endpoint
    return {**kept, "client_kwargs": arguments} if arguments else kept


def check_slashes(target: str | bytes) -> None:
    """Refuse a path that looks like a URL with a missing slash, such as ``s3:/bucket``.

    ``str(Path("s3://bucket"))`` returns such a path. It would create a local directory ``s3:``.

    Raises
    ------
    StoreError

    Examples
    --------
    >>> check_slashes("s3://bucket/run42.zarr")
    >>> check_slashes("s3:/bucket/run42.zarr")
    Traceback (most recent call last):
    nczarr.errors.StoreError: ...URL with a missing slash...
    """
    if not isinstance(target, str) or ":" not in target:
        return
    parts = target.split("::")  # each part of a chained URL has a protocol
    for number, part in enumerate(parts if _SCHEME.match(target) else parts[:1]):
        # pathlib removes a slash, and so do people: a local directory 's3:' would be made.
        found = _LACKS_SLASH.match(part)
        if found is None:
            continue
        rest = part[found.start(2) :] if found[1].lower() == "file" else part[found.end() :]
        url = "::".join([*parts[:number], f"{found[1]}://{rest}", *parts[number + 1 :]])
        raise StoreError(
            "the path looks like a URL with a missing slash",
            path=target,
            hint=f"write {url} for the URL, or ./{target} for a local path",
        )


def _check_address(url: str) -> None:
    """Refuse an HTTP URL that has no host or an invalid host.

    Raises
    ------
    StoreError
    """
    try:
        parts = urlsplit(url)
        wrong = "the host is missing" if not parts.hostname else ""
        parts.port  # noqa: B018 (the property raises ValueError for an invalid port)
    except ValueError as error:
        wrong = str(error)
    if wrong:
        raise StoreError(f"invalid URL: {wrong}", path=url)


def _settings(text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    alone: list[str] = []
    for item in text.split("&"):
        name, equals, value = item.partition("=")
        if equals:
            settings[name.lower()] = value
        elif name.lower() in _MODES:
            alone.append(name.lower())
        else:
            settings[name.lower()] = ""
    if alone:
        settings["mode"] = ",".join(filter(None, [settings.get("mode", ""), *alone]))
    return settings


def _file_path(rest: str) -> str:
    path = rest.removeprefix("localhost") if rest.startswith("localhost/") else rest
    if re.match(r"/[A-Za-z]:[/\\]", path):
        path = path[1:]
    # Not all programs percent-encode file URLs: prefer the form for which a file exists.
    decoded = unquote(path)
    return decoded if os.path.exists(decoded) and not os.path.exists(path) else path


def _s3_target(url: str, fragment: dict[str, str]) -> Target:
    """Convert a path-style or virtual-hosted-style S3 URL to an ``s3://`` target."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    path = parts.path.lstrip("/")
    settings = dict(fragment)
    virtual = re.fullmatch(r"(.+)\.s3(?:[.-]([a-z0-9-]+))?\.amazonaws\.com", host)
    by_path = re.fullmatch(r"s3(?:[.-]([a-z0-9-]+))?\.amazonaws\.com", host)
    region = virtual[2] if virtual else by_path[1] if by_path else None
    if region:
        settings.setdefault("aws.region", region)
    if virtual:
        path = f"{virtual[1]}/{path}"
    elif not by_path:
        settings["endpoint_url"] = f"{parts.scheme}://{parts.netloc}"
    return Target(f"s3://{path}", "s3", settings)
