"""Project longitudes and latitudes to the plane of a map, and back, with pyproj."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Projections that a user may choose, as definitions for PROJ around the middle of the data. On an ellipsoid, the
#: orthographic projection has no closed form and takes ten times as long.
PROJECTIONS = {
    "plate carrée": "",
    "orthographic": "+proj=ortho +lon_0={lon} +lat_0={lat} +R=6371229",
    "north polar": "+proj=laea +lat_0=90 +lon_0={lon} +R=6371229",
    "south polar": "+proj=laea +lat_0=-90 +lon_0={lon} +R=6371229",
    "Robinson": "+proj=robin +lon_0={lon} +R=6371229",
    "Mollweide": "+proj=moll +lon_0={lon} +R=6371229",
}


@dataclass(frozen=True)
class Plane:
    """The plane of a map: longitudes and latitudes, or a projection that pyproj knows.

    Parameters
    ----------
    definition : str
        A definition for PROJ, or WKT; empty for longitudes and latitudes.

    Examples
    --------
    >>> x, y = Plane("+proj=laea +lat_0=90").project(np.array([0.0]), np.array([90.0]))
    >>> float(abs(x[0])) < 1e-6
    True
    """

    definition: str = ""

    def project(self, longitude: np.ndarray, latitude: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points (x, y) of the plane; NaN for places that it does not show."""
        return self._transform(longitude, latitude, "FORWARD")

    def locate(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return longitudes and latitudes of points; NaN for points without a place."""
        return self._transform(x, y, "INVERSE")

    def _transform(self, x: np.ndarray, y: np.ndarray, direction: str) -> tuple[np.ndarray, np.ndarray]:
        if not self.definition:
            return x, y
        from pyproj import CRS, Transformer

        plane = CRS.from_user_input(self.definition)
        change = Transformer.from_crs(plane.source_crs or plane.geodetic_crs, plane, always_xy=True)
        u, v = (np.where(np.isfinite(n), n, np.nan) for n in change.transform(x, y, direction=direction))
        return u, v
