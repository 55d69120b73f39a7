"""Hide what is secret in a path or URL before it is shown."""

from __future__ import annotations

import re

HIDDEN = "***"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^\s\"'<>]+)")
#: Without a colon before the ``@`` these have a user's name, or the name of a container; others a token.
_NAMED = frozenset({"abfs", "abfss", "ftp", "hdfs", "scp", "sftp", "smb", "ssh", "wasb", "wasbs"})
_SECRET = r"(?:token|signature|secret|passw|pwd|credential|api_?-?key|access_?-?key|\bsig\b|\bkey\b)"
_SETTING = re.compile(rf"([?&#,;][^=&#?\s\"']*{_SECRET}[^=&#?\s\"']*=)[^&#\s\"'<>),;]+", re.IGNORECASE)


def shown_location(text: str) -> str:
    """Return a path, a URL, or a message with URLs in it, without passwords, tokens and signatures.

    Of URLs the password and the values of the query are hidden: any of them may be a key, and the names are enough
    to know a request again. Wherever a location enters a message, a report or a document, it goes through here.

    Examples
    --------
    >>> shown_location("https://data.example/run42.zarr?X-Amz-Signature=5f3c&X-Amz-Expires=60")
    'https://data.example/run42.zarr?X-Amz-Signature=***&X-Amz-Expires=***'
    >>> shown_location("simplecache::http://user:hunter2@data.example:8080/a.nc")
    'simplecache::http://user:***@data.example:8080/a.nc'
    >>> shown_location("s3://AKIA1:a/b+c@bucket/run42.zarr"), shown_location("data/a=b?c.zarr")
    ('s3://AKIA1:***@bucket/run42.zarr', 'data/a=b?c.zarr')
    """
    if "://" in text:
        text = _URL.sub(_shown_url, text)
    return _SETTING.sub(rf"\1{HIDDEN}", text) if "=" in text else text


def _shown_url(found: re.Match[str]) -> str:
    scheme, rest = found[1], found[2]
    rest, hash_, fragment = rest.partition("#")
    rest, mark, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    # A key may have slashes in it, which do not end it: no port is anything but digits.
    if "@" not in authority and "@" in path and re.search(r":(?!\d*\Z)", authority):
        authority, _, path = rest.rpartition("@")
        bucket, slash, path = path.partition("/")
        authority = f"{authority}@{bucket}"
    user, at, host = authority.rpartition("@")
    if at:
        name, colon, _ = user.partition(":")
        kept = name + colon + HIDDEN if colon else name if scheme.lower() in _NAMED else HIDDEN
        authority = f"{kept}@{host}"
    if mark:
        query = "&".join(_shown_setting(item) for item in query.split("&"))
    return f"{scheme}://{authority}{slash}{path}{mark}{query}{hash_}{fragment}"


def _shown_setting(item: str) -> str:
    name, equals, value = item.partition("=")
    return f"{name}={HIDDEN}" if equals and value else item if equals or not item else HIDDEN
