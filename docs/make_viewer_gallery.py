"""Draw a gallery of the viewer's pictures: every shape of data, from realistic and real small datasets, on one page."""

from __future__ import annotations

import html
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE.parent / "tests" / "data"
#: More pictures of the datasets of ``tests/helpers/shapes.py``: name, variable, options.
MORE: list[tuple[str, str, dict[str, object]]] = [
    ("climatology", "theta", {"projection": "orthographic", "overlay": ("contours",)}),
    ("climatology", "theta", {"projection": "Robinson", "overlay": ("vectors",)}),
    ("climatology", "theta", {"at": {"time": 0, "lon": 10}}),
    ("climatology", "uo", {"projection": "north polar"}),
    ("ugrid", "eta", {}),
    ("lambert", "t2m", {"projection": "plate carrée"}),
    ("ascat", "wind_speed", {"projection": "orthographic"}),
]
#: Real files: path below ``tests/data``, variable.
REAL = [
    ("selection/netcdf/small_rotPole_precipitation.nc", "pr"),
    ("selection/netcdf/euro_air_temp.nc", "air_temperature"),
    ("selection/netcdf/sst.nc", "TEMP"),
    ("selection/netcdf/basin_mask.nc", "basin"),
    ("selection/netcdf/absolute.nc", "tem"),
    ("selection/netcdf/NAO_b053.03_0000-0999.nc", "NAO"),
    ("example.nc", "/ocean/flag"),
]


def draw(target: Path) -> int:
    """Draw the pictures and the page into a folder, and return the number of pictures."""
    sys.path.insert(0, str(HERE.parent / "tests" / "helpers"))
    import shapes

    from nczarr.view import plot

    target.mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: shapes.make(name, Path(folder)) for name in shapes.SHAPES}
        jobs = [(paths[n], fqn, {}, str(maker.__doc__)) for n, (fqn, maker) in shapes.SHAPES.items()]
        jobs += [(paths[n], v, options, str(shapes.SHAPES[n][1].__doc__)) for n, v, options in MORE]
        jobs += [(DATA / name, variable, {}, name) for name, variable in REAL]
        for number, (path, variable, options, about) in enumerate(jobs):
            name = f"{number:02d}-{path.stem}.png"
            (target / name).write_bytes(plot(path, variable, dpi=70, **options))
            given = ", ".join(f"{key}={value!r}" for key, value in options.items())
            text = html.escape(f"{about} {variable} {given}")
            parts.append(f'<figure><img src="{name}" alt="{text}"><figcaption>{text}</figcaption></figure>')
    style = "body{font-family:sans-serif}figure{display:inline-block;width:420px;vertical-align:top}img{width:100%}"
    page = f'<!doctype html><meta charset="utf-8"><title>nczarr view</title><style>{style}</style>{"".join(parts)}'
    (target / "index.html").write_text(page, encoding="utf-8")
    return len(parts)


if __name__ == "__main__":
    print(draw(Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "viewer-gallery")), "pictures")
