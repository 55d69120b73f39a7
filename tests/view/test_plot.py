"""``nczarr plot`` and :func:`nczarr.view.plot`: files, terminals, messages."""

from __future__ import annotations

import base64
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import nczarr
from nczarr import cdl
from nczarr.cli import main
from nczarr.errors import NCZarrError
from nczarr.view import plot
from nczarr.view.picture.colours import MISSING

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = str(DATA / "example.nc")


@pytest.fixture(params=["netCDF", "NCZarr v3", "NCZarr v2", "plain", "2019 draft", "CDL", "URL"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    layouts = {
        "NCZarr v3": "nczarr-v3",
        "NCZarr v2": "nczarr-v2",
        "plain": "zarr-v3",
        "2019 draft": "draft-2019",
    }
    if request.param == "netCDF":
        return EXAMPLE
    if request.param == "CDL":
        nczarr.copy(EXAMPLE, tmp_path / "example.cdl")
        return str(tmp_path / "example.cdl")
    if request.param == "URL":
        nczarr.copy(EXAMPLE, tmp_path / "e.zarr")
        return (tmp_path / "e.zarr").as_uri()
    nczarr.copy(EXAMPLE, tmp_path / "e.zarr", layout=layouts[request.param], lossy=True)
    return str(tmp_path / "e.zarr")


@pytest.mark.slow
def test_every_kind_of_source_gives_the_same_picture(source: str) -> None:
    with Image.open(io.BytesIO(plot(source, "/ocean/temp", at={"time": 1}, dpi=50))) as image:
        found = np.asarray(image.convert("RGB"))
    with Image.open(io.BytesIO(plot(EXAMPLE, "/ocean/temp", at={"time": 1}, dpi=50))) as image:
        expected = np.asarray(image.convert("RGB"))
    assert (found == expected).all()
    grey = tuple(int(MISSING[i : i + 2], 16) for i in (1, 3, 5))
    share = (found == grey).all(axis=2).mean()
    with nczarr.Dataset(EXAMPLE) as ds:
        missing = np.ma.getmaskarray(ds["/ocean/temp"][1, 0]).mean()
    assert 0.4 * missing < share < 1.1 * missing  # the map is a large part of the picture


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "begin"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("jpg", b"\xff\xd8\xff"), ("webp", b"RIFF")],
)
def test_formats(suffix: str, begin: bytes, tmp_path: Path) -> None:
    target = tmp_path / f"map.{suffix}"
    assert main(["plot", EXAMPLE, "slp", "-d", "time=2020-03", "-o", str(target), "--dpi", "40"]) == 0
    assert target.read_bytes().startswith(begin)
    assert [f.name for f in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no variable 'nothing'"),
        (["tempp"], "did you mean 'temp'"),
        (["temp", "-d", "time=9"], "the dimension has the size 6"),
        (["temp", "-d", "time"], "is not NAME=INDEX"),
        (["temp", "-d", "tim=1"], "the dimensions are time, depth, lat, lon"),
        (["temp", "--colours", "virids"], "viridis"),
        (["temp", "--limits", "1"], "is not LOW,HIGH"),
    ],
)
def test_messages(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "map.png"
    assert main(["plot", EXAMPLE, *arguments, "-o", str(target)]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_unknown_formats_and_pipes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", EXAMPLE, "temp", "-o", str(tmp_path / "map.doc")]) == 1
    assert "png, svg, pdf" in capsys.readouterr().err
    assert main(["plot", EXAMPLE, "temp"]) == 1
    assert "not a terminal" in capsys.readouterr().err


def on_terminal(before: str, *arguments: str) -> bytes:
    """The bytes that the command line writes to a terminal of 60 columns, after some lines of Python."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 60, 0, 0))
    code = f"import sys; {before}; from nczarr.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "60", "LINES": "30"}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        assert process.stderr is not None
        errors = process.stderr.read()
    os.close(ours)
    assert process.returncode == 0, errors
    return shown


def test_a_picture_on_the_terminal() -> None:
    shown = on_terminal("pass", "plot", EXAMPLE, "temp", "-d", "time=2020-03", "--dpi", "40")
    assert shown.count(b"\x1b[48;2;") > 50  # pixels in true colours
    text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    assert "time = 2020-03-16 12:00" in text
    assert any("⠀" < character < "⣿" for character in text)  # coastlines in braille dots
    # Both axes and the legend have numbers.
    assert "90 |" in text
    assert "| 0 " in text
    assert "temp (degree_Celsius): -2.78" in text
    assert "26.96" in text


def decode_kitty(shown: bytes) -> np.ndarray:
    """The image in the chunks of Kitty's protocol: PNG in Base64."""
    chunks = re.findall(rb"\x1b_G[^;]*f=100[^;]*;([A-Za-z0-9+/=]*)\x1b", shown)
    with Image.open(io.BytesIO(base64.b64decode(b"".join(chunks)))) as image:
        return np.asarray(image.convert("RGB"))


def decode_sixel(shown: bytes) -> np.ndarray:
    """The image in a Sixel sequence: bands of six rows, one colour after the other."""
    found = re.search(rb"\x1bP[0-9;]*q(.*?)\x1b\\", shown, re.DOTALL)
    assert found is not None
    pixels = np.full((2000, 2000, 3), -1)
    colours: dict[int, tuple[int, ...]] = {}
    colour = column = band = wide = 0
    for token in re.finditer(rb'"[0-9;]*|#([0-9;]+)|!([0-9]+)([?-~])|([?-~])|([$-])', found[1]):
        define, repeat, repeated, single, move = token.groups()
        if define is not None:
            colour, *rgb = map(int, define.split(b";"))
            if rgb:
                assert rgb[0] == 2
                colours[colour] = tuple(round(part * 2.55) for part in rgb[1:])
        elif repeated or single:
            count, bits = int(repeat or 1), (repeated or single)[0] - 63
            for row in range(6):
                if bits >> row & 1:
                    pixels[6 * band + row, column : column + count] = colours[colour]
            column += count
            wide = max(wide, column)
        elif move is not None:
            column, band = 0, band + (move == b"-")
    high = int((pixels >= 0).any(axis=(1, 2)).sum())
    return pixels[:high, :wide]


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "decode"), [("TGPImage", decode_kitty), ("SixelImage", decode_sixel)])
def test_the_image_that_a_terminal_gets_is_the_picture(
    protocol: str, decode: Callable[[bytes], np.ndarray]
) -> None:
    before = f"from textual_image import renderable as r; r.Image = r.{protocol}"
    found = decode(on_terminal(before, "plot", EXAMPLE, "temp", "-d", "time=1"))
    with Image.open(io.BytesIO(plot(EXAMPLE, "temp", at={"time": 1}))) as image:
        expected = np.asarray(image.convert("RGB").resize(found.shape[1::-1]))
    assert min(found.shape[:2]) > 100
    assert (found >= 0).all()
    assert np.abs(found.astype(int) - expected).mean() < 6


def test_hostile_names_are_drawn_as_text(tmp_path: Path) -> None:
    with nczarr.Dataset(tmp_path / "a.zarr", "w") as ds:
        ds.createDimension("_$x^{", 3)
        v = ds.createVariable("_$\\frac{", "f4", ("_$x^{",))
        v.long_name = "\x1b]0;title\x07 $\\undefined$ \u202e" + "y" * 100_000
        v.units = "\x9c\x1b[31m\x00"
        v[:] = 1
    assert plot(tmp_path / "a.zarr", "_$\\frac{", dpi=40).startswith(b"\x89PNG")


def test_options_of_colours_change_the_picture(tmp_path: Path) -> None:
    text = """netcdf d { dimensions: t = 2; z = 2; y = 2; x = 3; variables: double z(z); z:positive = "up";
      double v(t, z, y, x); data: z = 0, 1;
      v = 1, 2, 3, 4, 5, 6, 50, 60, 70, 80, 81, 82, 5, 6, 7, 8, 9, 10, 90, 91, 92, 93, 94, 95; }"""
    source, coast = str(tmp_path / "d.nc"), tmp_path / "coast.geojson"
    nczarr.copy(cdl.loads(text), source)
    coast.write_text('{"type": "LineString", "coordinates": [[10, 50], [11, 51]]}')

    def drawn(name: str, *options: str) -> bytes:
        path = tmp_path / f"{name}.png"
        assert main(["plot", source, "v", "-o", str(path), "--dpi", "40", *options]) == 0
        return path.read_bytes()

    step, level, whole = (drawn(of, "--of", of) for of in ("step", "level", "all"))
    assert len({step, level, whole}) == 3
    assert drawn("default") == step
    assert drawn("robust", "--robust") == plot(source, "v", reach="robust", dpi=40) != step
    assert drawn("log", "--log") == plot(source, "v", progression="log", dpi=40) != step
    assert drawn("linear", "--linear") == drawn("coast", "--coast", str(coast)) == step
    with pytest.raises(NCZarrError, match="of='day'"):
        plot(EXAMPLE, "/ocean/temp", of="day")  # type: ignore[arg-type]
    with pytest.raises(NCZarrError, match="'whole', 'robust'"):
        plot(EXAMPLE, "/ocean/temp", reach="narrow")  # type: ignore[arg-type]
    with pytest.raises(NCZarrError, match="'linear', 'log'"):
        plot(EXAMPLE, "/ocean/temp", progression="square")  # type: ignore[arg-type]
