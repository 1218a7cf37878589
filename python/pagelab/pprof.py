"""A run's lines as a profile that pprof reads.

The format is profile.proto of github.com/google/pprof, compressed by gzip. The few messages that it
has are written here: protobuf's own library would be a dependency larger than this module.
"""

import gzip
from collections.abc import Iterable
from pathlib import Path

from pagelab.counts import Line
from pagelab.results import Comparison, Run

# Counts of a sample, and their units.
_SAMPLE_TYPES = {
    "walk_cycles": "cycles",
    "walks": "count",
    "l2_tlb_misses": "count",
    "l1_tlb_misses": "count",
    "faults": "count",
    "fault_cycles": "cycles",
    "accesses": "count",
}


def profile(comparison: Comparison, run: Run, by: str) -> bytes:
    """The lines of a run, a sample each; `by` is what pprof shows unless it is asked for another.

    Of callers only those are known that a function was inlined into, and of these no lines.
    Addresses are not kept by line, and are 0.
    """
    tables = _Tables()
    out = bytearray()
    for name, unit in _SAMPLE_TYPES.items():
        out += _message(1, _number(1, tables.string(name)) + _number(2, tables.string(unit)))
    objects = {line.object for line in run.lines if line.object}
    # The first mapping is the program's own.
    own = Path(comparison.command[0]).name if comparison.command else ""
    for path in sorted(objects, key=lambda path: (Path(path).name != own, path)):
        tables.mapping(path)
    for line in run.lines:
        values = [getattr(line, name) for name in _SAMPLE_TYPES]
        if any(values):
            location = _packed(1, [tables.location(line)])
            out += _message(2, location + _packed(2, values))
    title = f"{comparison.name} under {comparison.label(run)}, by pagelab {comparison.pagelab}"
    comment, default = tables.string(title), tables.string(by)
    out += tables.written
    # Without the first string, which is empty, a reader refuses the file.
    for text in tables.strings:
        out += _message(6, text.encode(errors="replace"))
    out += _packed(13, [comment]) + _number(14, default)
    return gzip.compress(bytes(out), mtime=0)


class _Tables:
    """Tables that samples refer to by number, written as they appear."""

    def __init__(self) -> None:
        self.strings = {"": 0}
        self.written = bytearray()
        self._mappings: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations = 0

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def mapping(self, path: str) -> int:
        """A file that code is mapped from."""
        number = self._mappings.get(path)
        if number is None:
            number = self._mappings[path] = len(self._mappings) + 1
            # It has functions, file names, lines and inlined frames: pprof need not look for them.
            flags = b"".join(_number(field, 1) for field in (7, 8, 9, 10))
            self.written += _message(3, _number(1, number) + _number(5, self.string(path)) + flags)
        return number

    def location(self, line: Line) -> int:
        """Location of a line: in its function, and in those that it was inlined into."""
        name = line.function or (f"[{Path(line.object).name}]" if line.object else line.place)
        frames = _message(4, self._frame(name, line.file, line.line))
        for outer in line.inlined_into:
            frames += _message(4, self._frame(outer, None, None))
        self._locations += 1
        mapping = _number(2, self.mapping(line.object)) if line.object else b""
        self.written += _message(4, _number(1, self._locations) + mapping + frames)
        return self._locations

    def _frame(self, name: str, file: str | None, line: int | None) -> bytes:
        key = (name, file or "")
        number = self._functions.get(key)
        if number is None:
            number = self._functions[key] = len(self._functions) + 1
            names = _number(2, self.string(name)) + _number(3, self.string(name))
            self.written += _message(
                5, _number(1, number) + names + _number(4, self.string(file or ""))
            )
        return _number(1, number) + _number(2, line or 0)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))
