"""Numbers as people read them, and back.

Counts use the decimal prefixes (12.3 M), bytes the binary ones under their exact names (1.5 GiB).
"""

import re
from decimal import Decimal

from pagelab.errors import UsageError

_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))

# Limit of anything that is counted; a core takes a decade to get there.
_MOST = 10**18


def _three_digits(value: float) -> str:
    """`value` below 1000 with three significant digits at most."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def count(value: float) -> str:
    """A count with a decimal prefix: 950, 1.20 k, 12.3 M."""
    for size, prefix in _DECIMAL:
        if value >= size * 0.9995:
            return f"{_three_digits(value / size)} {prefix}"
    return f"{value:.0f}" if float(value).is_integer() or value >= 100 else _three_digits(value)


def size(value: float) -> str:
    """Bytes with a binary prefix: 512 B, 1.50 GiB."""
    for unit, name in _BINARY:
        if value >= unit * 0.9995:
            return f"{_three_digits(value / unit)} {name}"
    return f"{value:.0f} B"


def percent(share: float, digits: int = 1) -> str:
    """A share of one as a percentage: 0.125 is 12.5 %."""
    return f"{share * 100:.{digits}f} %"


def signed_percent(share: float, digits: int = 1) -> str:
    """A change as a percentage with its sign; no sign on what rounds to zero."""
    text = f"{share * 100:+.{digits}f}"
    if float(text) == 0:
        return f"{text[1:]} %"
    return text.replace("-", "\N{MINUS SIGN}") + " %"


def duration(seconds: float) -> str:
    """A duration: 8.2 s, 3 min 20 s, 2 h 05 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def nanoseconds(value: float) -> str:
    """A time with three digits: 1.10 ns, 35.2 µs."""
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} ns"


def parse_count(text: str) -> int:
    """The count that a user wrote: 5000, 10M, 1.5G (decimal prefixes k, M, G, T).

    Raises UsageError for anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)\s*", text, re.ASCII)
    if match is None:
        raise UsageError(f"'{text}' is not a count; write it as 5000, 10M or 1.5G")
    factor = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}[match[2].upper()]
    # Exactly: a float has no room for what comes after 2^53.
    value = Decimal(match[1]) * factor
    if value > _MOST:
        raise UsageError(f"'{text}' is more than there can be; the most is {_MOST:,}")
    if value != int(value):
        raise UsageError(f"'{text}' is not a whole number; write it as 5000, 10M or 1.5G")
    return int(value)


def parse_size(text: str) -> int:
    """The bytes that a user wrote: 512M, 8GiB, 1.5G (binary prefixes).

    Raises UsageError for anything else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?)(?:i?B)?\s*", text)
    if match is None:
        raise UsageError(f"'{text}' is not a size; write it as 512M or 8GiB")
    power = " KMGT".index(match[2].upper() or " ")
    return round(float(match[1]) * (1 << 10 * power))


def number(value: float | None) -> str:
    """Three or four significant digits, all of what is an int; a dash for none."""
    if value is None:
        return "\N{EN DASH}"
    if value == 0:
        return "0"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"
