"""Values that a variable is given come back, or the first one that would not is named."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczarr.errors import UnsupportedError
from nczarr.model import BYTE, DOUBLE, FLOAT, INT, INT64, SHORT, STRING, UBYTE, Attribute, EnumType, Type
from nczarr.model.stored_form import StoredForm


def form(type_: Type, **attributes: Any) -> StoredForm:
    found = StoredForm.of(type_, {name: Attribute.of(name, value) for name, value in attributes.items()})
    assert found is not None
    return found


DAYS, HOURS = {"units": "days since 2019-01-01"}, {"units": "hours since 2019-01-01", "calendar": "standard"}
TENTH = {"scale_factor": 0.01}
QUALITY = EnumType("/quality", UBYTE, (("good", 0), ("bad", 4)))


@pytest.mark.parametrize(
    ("stored", "values", "numbers"),
    [
        pytest.param(form(SHORT, **TENTH), [1.5, -2.254], [150, -225], id="packed within half a step"),
        pytest.param(form(SHORT, _FillValue=np.int16(-1)), [1.0, np.nan], [1, -1], id="NaN to fill"),
        pytest.param(form(SHORT, missing_value=np.int16(-2)), [np.nan], [-2], id="NaN to missing_value"),
        pytest.param(form(FLOAT), np.array([0.1, 1e-3]), np.float32([0.1, 1e-3]), id="floats rounded"),
        pytest.param(form(BYTE, _Unsigned="true"), [200], [200], id="unsigned"),
        pytest.param(form(INT64, **DAYS), np.array(["2019-01-03"], "M8[ns]"), [2], id="whole days"),
        pytest.param(form(DOUBLE, **DAYS), np.array(["2019-01-01T06"], "M8[s]"), [0.25], id="parts of days"),
        pytest.param(form(INT, **HOURS), [cftime.DatetimeGregorian(2019, 1, 1, 5)], [5], id="dates"),
        pytest.param(form(INT, **HOURS), [7, 8], [7, 8], id="numbers of times"),
        pytest.param(form(INT, units="hours"), np.array([7200], "m8[s]"), [2], id="durations"),
        pytest.param(form(QUALITY), [0, 4, 4], [0, 4, 4], id="members"),
        pytest.param(form(INT), np.ma.masked_array([1, 2], [False, False]), [1, 2], id="nothing masked"),
    ],
)  # fmt: skip
def test_values_that_fit_come_back(stored: StoredForm, values: Any, numbers: Any) -> None:
    found = stored.fit(np.asanyarray(values))
    assert found.change is None
    np.testing.assert_array_equal(found.numbers, np.array(numbers, stored.dtype))
    assert stored.change(np.asanyarray(values), found.numbers) is None


@pytest.mark.parametrize(
    ("stored", "values", "change"),
    [
        (form(SHORT, **TENTH), [[0.5], [400.0]], "400.0 at [1, 0] would be stored as -255.36 (int16"),
        (form(INT), [1, 2.7], "2.7 at [1] would be stored as 3 (int32)"),
        (form(SHORT), [70000], "70000 at [0] would be stored as 4464 (int16)"),
        (form(UBYTE), [-1], "-1 at [0] would be stored as 255 (uint8)"),
        (form(INT64), np.array([2**63], "u8"), "9223372036854775808 at [0] would be stored as -9223372036854775808"),
        (form(INT64), [2.0**63], "9.223372036854776e+18 at [0] would be stored as"),
        (form(DOUBLE), [2**53 + 1], "9007199254740993 at [0] would be stored as 9007199254740992.0 (float64)"),
        (form(FLOAT), [1e300], "1e+300 at [0] would be stored as inf (float32)"),
        (form(INT), [np.nan], "nan at [0] would be stored as 0 (int32)"),
        (form(INT), np.ma.masked_array([3, 4], [False, True]), "a missing value at [1] would be stored as 0 (int32)"),
        (form(INT, _FillValue=np.int32(-1)), [-1], "-1 at [0] would be stored as a missing value (int32)"),
        (form(QUALITY), [0, 2], "2 at [1] is no member of the enum (uint8 with the members 0, 4)"),
        (form(INT64, **DAYS), np.array(["2019-01-01T01:10"], "M8[m]"),
         "2019-01-01T01:10 at [0] would be stored as 2019-01-01T00:00:00 (int64 with the units 'days"),
        (form(FLOAT, units="days since 1900-01-01"), np.array(["2019-01-01T01:10"], "M8[ns]"),
         "2019-01-01T01:10:00 at [0] would be stored as 2019-01-01T01:07:30 (float32 with"),
        (form(INT64, **HOURS), np.array(["1500-01-01"], "M8[s]"), "1500-01-01T00:00:00 at [0] would be stored as"),
        (form(INT, units="hours"), np.array([5400], "m8[s]"), "5400 at [0] would be stored as 2 (int32)"),
        (form(INT64, **DAYS), np.array(["NaT"], "M8[ns]"), "a missing value at [0] would be stored as 2019-01-01"),
    ],
)  # fmt: skip
def test_the_first_value_that_would_change_is_named(stored: StoredForm, values: Any, change: str) -> None:
    found = stored.fit(np.asanyarray(values))
    assert str(found.change).startswith(change)
    # The numbers that another program has made of the values are compared in the same way.
    assert str(stored.change(np.asanyarray(values), found.numbers)) == str(found.change)


@pytest.mark.parametrize(
    ("stored", "values", "says"),
    [
        (form(INT, units="days since 2019-01-01", calendar="noleap"), np.array(["2019-01-01"], "M8[s]"), "noleap"),
        (form(INT, units="K"), np.array(["2019-01-01"], "M8[s]"), "times do not fit a variable without units of time"),
        (form(INT, **DAYS), np.array([1], "m8[s]"), "durations do not fit a variable with units of time"),
        (form(INT), np.array(["a"]), "no numbers"),
        (form(INT, **DAYS), np.array(["a", None], object), "neither numbers nor dates"),
    ],
)  # fmt: skip
def test_values_of_another_kind_are_refused(stored: StoredForm, values: Any, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        stored.fit(values)


def test_text_has_no_form() -> None:
    assert StoredForm.of(STRING, {}) is None
    assert StoredForm.of(SHORT, {"scale_factor": Attribute.of("scale_factor", "0.5")}) is None


def test_an_enum_has_its_own_fill_value() -> None:
    fill = Attribute("_FillValue", QUALITY, np.array([4], "u1"))
    stored = StoredForm.of(QUALITY, {"_FillValue": fill})
    assert stored is not None
    assert stored.fit(np.array([0.0, np.nan])).numbers.tolist() == [0, 4]


def test_the_order_of_bytes_is_no_change() -> None:
    stored = form(INT, **DAYS)
    assert stored.fit(np.array([1, 2], ">i8")).numbers.tolist() == [1, 2]
    assert stored.fit(np.array(["2019-01-03"], ">M8[ns]")).numbers.tolist() == [2]
    assert stored.change(np.array([1.0, 2.0], ">f8"), np.array([1, 2], ">i4")) is None


def test_a_change_in_a_later_block_is_found_at_its_place() -> None:
    values = np.zeros((3, 1 << 17))
    values[2, 70_000] = 0.5
    found = form(INT).fit(values)
    assert found.change is not None
    assert found.change.place == (2, 70_000)


UNITS = {"seconds": 10**6, "minutes": 60 * 10**6, "hours": 3600 * 10**6, "days": 86400 * 10**6}


@given(
    micro=st.lists(st.integers(-(10**17), 10**17).map(lambda n: n // 10**6 * 10**6), min_size=1, max_size=4),
    unit=st.sampled_from(list(UNITS)),
    day=st.integers(-40_000, 40_000),
    type_=st.sampled_from([SHORT, INT, INT64, FLOAT, DOUBLE]),
)
def test_times_are_stored_exactly_or_named(micro: list[int], unit: str, day: int, type_: Any) -> None:
    since = np.datetime64(day, "D")
    stored = form(type_, units=f"{unit} since {since}", calendar="proleptic_gregorian")
    found = stored.fit(np.array(micro, "M8[us]"))
    wrong = []
    for time, number in zip(micro, found.numbers.tolist(), strict=True):
        exact = Fraction(time - day * 86400 * 10**6, UNITS[unit])
        limit = Fraction(0) if type_.dtype.kind == "i" else Fraction(10, UNITS[unit])
        wrong.append(not np.isfinite(number) or abs(Fraction(number) - exact) > limit)
    assert (found.change is not None) == any(wrong)
    if found.change is not None:
        assert found.change.place == (wrong.index(True),)
