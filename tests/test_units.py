"""Numbers as people read and write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelab import units
from pagelab.errors import UsageError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1.00 k"),
        (12_345_678, "12.3 M"),
        (999_999, "1.00 M"),
        (5e12, "5.00 T"),
        (0.25, "0.25"),
    ],
)
def test_counts_carry_three_digits_and_a_decimal_prefix(value: float, text: str) -> None:
    assert units.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.50 KiB"),
        (2**31, "2.00 GiB"),
        (2**20 - 1, "1.00 MiB"),
    ],
)
def test_sizes_carry_binary_units(value: int, text: str) -> None:
    assert units.size(value) == text


@given(st.integers(1, 10**14))
def test_a_count_is_within_half_a_percent_of_what_it_says(value: int) -> None:
    number, _, prefix = units.count(value).partition(" ")
    factor = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[prefix]
    assert float(number) * factor == pytest.approx(value, rel=0.0051)


def test_changes_carry_a_sign_unless_they_round_to_nothing() -> None:
    assert units.signed_percent(0.0912) == "+9.1 %"
    assert units.signed_percent(-0.0912) == "\N{MINUS SIGN}9.1 %"
    assert units.signed_percent(-0.0001) == "0.0 %"


def test_durations_change_units() -> None:
    assert units.duration(8.21) == "8.2 s"
    assert units.duration(59.97) == "1 min 00 s"
    assert units.duration(7500) == "2 h 05 min"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5000", 5000),
        ("1.5G", 1_500_000_000),
        ("10m", 10**7),
        ("0.001k", 1),
        # 2^53 and one: no float is that.
        ("9007199254740993", 9_007_199_254_740_993),
    ],
)
def test_counts_are_read_with_prefixes(text: str, value: int) -> None:
    assert units.parse_count(text) == value


@pytest.mark.parametrize("text", ["", "G", "-5", "1e9", "10GB", "0x10"])
def test_what_is_no_count_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="write it as"):
        units.parse_count(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.5", "not a whole number"),
        ("1.0001k", "not a whole number"),
        ("18446744073709551615", "more than there can be"),
        ("99999999999999999999999", "more than there can be"),
        ("9999999.5T", "more than there can be"),
    ],
)
def test_a_count_that_there_cannot_be_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        units.parse_count(text)
