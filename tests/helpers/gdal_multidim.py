"""Read GDAL's multidimensional arrays through ctypes, from a wheel (rasterio, pyogrio) or the system."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
import os
from ctypes import POINTER, byref, c_char_p, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from pathlib import Path

import numpy as np

#: Names of the numpy dtypes by GDALDataType number.
DTYPES = {
    1: "u1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 7: "f8", 10: "c8", 11: "c16", 12: "u8", 13: "i8", 14: "i1",
}  # fmt: skip
MULTIDIMENSIONAL = 0x10
POINTERS = (
    "OpenEx", "DatasetGetRootGroup", "GroupOpenMDArrayFromFullname", "MDArrayGetDataType", "MDArrayGetDimensions",
    "MDArrayGetNoDataValueAsDouble",
)  # fmt: skip


class Unavailable(Exception):
    """GDAL is missing, or does not support Zarr v3."""


@cache
def library() -> ctypes.CDLL:
    """Load GDAL 3.11 or newer."""
    names = [given] if (given := os.environ.get("NCZARR_GDAL")) else []
    for package in ("rasterio", "pyogrio"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            importlib.import_module(package)  # loads the dependencies of its GDAL
            names += [str(p) for p in Path(spec.origin).parents[1].glob(f"{package}.libs/libgdal*")]
    names += [found] if (found := ctypes.util.find_library("gdal")) else []
    for name in names:
        try:
            gdal = ctypes.CDLL(name)
        except OSError:
            continue
        gdal.GDALVersionInfo.restype = c_char_p
        if int(gdal.GDALVersionInfo(b"VERSION_NUM")) >= 3110000:
            for function in POINTERS:
                getattr(gdal, f"GDAL{function}").restype = c_void_p
            gdal.GDALDimensionGetSize.restype = c_uint64
            gdal.GDALAllRegister()
            if b"blosc" not in _compressors(gdal):  # some wheels lack it
                continue
            gdal.CPLPushErrorHandler(ctypes.cast(gdal.CPLQuietErrorHandler, c_void_p))
            return gdal
    raise Unavailable("no GDAL 3.11 or newer with blosc (pip install 'rasterio>=1.5')")


def _compressors(gdal: ctypes.CDLL) -> bytes:
    gdal.GDALGetDriverByName.restype = c_void_p
    gdal.GDALGetMetadataItem.restype = c_char_p
    driver = c_void_p(gdal.GDALGetDriverByName(b"Zarr"))
    return gdal.GDALGetMetadataItem(driver, b"COMPRESSORS", None) or b"" if driver else b""


def read(store: Path, path: str) -> np.ndarray:
    """Read one whole array of a Zarr store. Text is returned as an array of str.

    Raises
    ------
    OSError
        If GDAL refuses the array.
    """
    gdal = library()
    dataset = c_void_p(gdal.GDALOpenEx(f"ZARR:{store}".encode(), MULTIDIMENSIONAL, None, None, None))
    if not dataset:
        raise OSError(_message(gdal, "it does not open the store"))
    root = array = None
    try:
        root = c_void_p(gdal.GDALDatasetGetRootGroup(dataset))
        array = c_void_p(gdal.GDALGroupOpenMDArrayFromFullname(root, f"/{path}".encode(), None))
        if not array:
            raise OSError(_message(gdal, "it does not open the array"))
        return _values(gdal, array)
    finally:
        if array:
            gdal.GDALMDArrayRelease(array)
        if root:
            gdal.GDALGroupRelease(root)
        gdal.GDALClose(dataset)


def _message(gdal: ctypes.CDLL, default: str) -> str:
    gdal.CPLGetLastErrorMsg.restype = c_char_p
    return gdal.CPLGetLastErrorMsg().decode() or default


def _values(gdal: ctypes.CDLL, array: c_void_p) -> np.ndarray:
    count = c_size_t()
    gdal.GDALMDArrayGetDimensions.restype = POINTER(c_void_p)
    dimensions = gdal.GDALMDArrayGetDimensions(array, byref(count))
    shape = tuple(gdal.GDALDimensionGetSize(c_void_p(dimensions[i])) for i in range(count.value))
    kind = c_void_p(gdal.GDALMDArrayGetDataType(array))
    text = gdal.GDALExtendedDataTypeGetClass(kind) == 1
    number = gdal.GDALExtendedDataTypeGetNumericDataType(kind)
    if not text and number not in DTYPES:
        raise OSError("a data type that is no number")
    raw = np.zeros(shape, np.uintp if text else DTYPES[number])
    n = max(len(shape), 1)
    steps = (c_int64 * n)(*[1] * len(shape))
    strides = (c_int64 * n)(*[s // raw.itemsize for s in raw.strides])
    starts, counts = (c_uint64 * n)(*[0] * len(shape)), (c_size_t * n)(*shape)
    done = gdal.GDALMDArrayRead(
        array, starts, counts, steps, strides, kind, c_void_p(raw.ctypes.data), None, c_size_t(0)
    )
    if not done:
        raise OSError(_message(gdal, "it does not read the array"))
    if not text:
        return raw
    out = np.empty(shape, object)
    for i, pointer in enumerate(raw.reshape(-1).tolist()):
        out.reshape(-1)[i] = (ctypes.string_at(pointer) if pointer else b"").decode(
            "utf-8", "surrogateescape"
        )
    return out
