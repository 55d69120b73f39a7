"""Provide coastlines for maps.

The package contains the coastlines, so that maps need no network. They are the outlines of the union of Natural Earth's
countries (1:110 million; public domain), rounded to 0.01 degrees, without borders and without the edge of the map.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

import numpy as np

from nczarr.view.picture.grids import Extent


@cache
def _lines() -> tuple[np.ndarray, ...]:
    text = files("nczarr.view.picture").joinpath("coastlines.json").read_text(encoding="utf-8")
    return tuple(np.array(line) for line in json.loads(text)["coordinates"])


def coastlines(extent: Extent) -> list[np.ndarray]:
    """Return the coastlines that cross an extent, as arrays of (longitude, latitude) in the extent's longitude range.

    Examples
    --------
    >>> len(coastlines(Extent(-30, -20, -5, 5)))  # the middle of the Atlantic
    0
    >>> all(line[:, 0].max() > 180 for line in coastlines(Extent(190, 300, -60, 60)))
    True
    """
    found = []
    turns = range(int(np.floor((extent.left - 180) / 360)), int(np.ceil((extent.right + 180) / 360)) + 1)
    for line in _lines():
        low, high = line.min(axis=0), line.max(axis=0)
        if high[1] < extent.bottom or low[1] > extent.top:
            continue
        for turn in turns:
            shift = 360 * turn
            if high[0] + shift >= extent.left and low[0] + shift <= extent.right:
                found.append(line + np.array([shift, 0]))
    return found
