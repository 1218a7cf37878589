#!/usr/bin/env python3
"""Prints a trace as text: a reader made from docs/trace-format.md alone, to check that page.

With --code after the file, prints its code instead: a line for each definition, execution and
site.
"""

import ctypes
import ctypes.util
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"pagelab\n"
MASK32 = (1 << 32) - 1
MASK64 = (1 << 64) - 1

KINDS = {
    2: "map",
    3: "unmap",
    4: "protect",
    5: "remap",
    6: "advise",
    7: "brk",
    8: "fork",
    9: "exec",
    10: "thread-start",
    11: "thread-end",
    12: "exit",
    13: "skipped",
    14: "mispredicted",
    15: "mispredicted",
    16: "mispredicted",
    17: "huge-pages",
    18: "touched",
    19: "allocating",
    20: "allocated",
    21: "freed",
}
NUMBERS = {0: 1, 1: 1, 2: 5, 3: 2, 4: 3, 5: 4, 6: 3, 7: 1, 8: 1, 9: 0, 10: 1, 11: 1, 12: 1}
NUMBERS |= {13: 2, 14: 1, 15: 1, 16: 3, 17: 1, 18: 3, 19: 1, 20: 2, 21: 1}
BACKING = ["anonymous", "shared-anonymous", "private-file", "shared-file", "stack"]
HUGE_PAGES = ["anywhere", "nowhere", "where-advised"]
TOUCH = ["loaded", "stored", "present", "executed"]
ADVICE = ["dontneed", "free", "hugepage", "nohugepage", "populate"]


class DamagedError(Exception):
    """The file is not as the page says."""


@dataclass
class Block:
    """A block: its header's fields and its payload."""

    tag: bytes
    offset: int
    accesses: int
    controls: int
    payload: bytes


def zstd(data: bytes, raw: int) -> bytes:
    """A zstd frame decompressed: the standard library cannot do it before Python 3.14."""
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    size = ctypes.c_size_t
    out = ctypes.create_string_buffer(raw)
    if library.ZSTD_decompress(out, size(raw), data, size(len(data))) != raw:
        raise DamagedError("a stream cannot be decompressed")
    return out.raw


def blocks(data: bytes) -> Iterator[Block]:
    """The blocks of a file, up to its index or to where it is cut off."""
    if data[:8] != MAGIC or struct.unpack_from("<I", data, 8) != (512,):
        raise DamagedError("not a trace of version 512")
    at = 12
    while at + 24 <= len(data):
        header = data[at : at + 24]
        tag, length, checksum, accesses, controls, own = struct.unpack("<4sIIIII", header)
        if zlib.crc32(header[:20]) != own:
            raise DamagedError(f"no block at byte {at}")
        payload = data[at + 24 : at + 24 + length]
        if len(payload) < length:
            return
        if zlib.crc32(payload) != checksum:
            raise DamagedError(f"the block at byte {at} is damaged")
        yield Block(tag, at, accesses, controls, payload)
        if tag == b"INDX":
            return
        at += 24 + length


def streams(payload: bytes) -> list[bytes]:
    """The streams of a chunk, or of definitions."""
    found = []
    while payload:
        raw, stored = struct.unpack_from("<II", payload)
        data, payload = payload[8 : 8 + stored], payload[8 + stored :]
        found.append(data if raw == stored else zstd(data, raw))
    return found


def varints(data: bytes) -> Iterator[int]:
    """The varints of a stream."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def unzigzag(number: int) -> int:
    """0, 1, 2, 3, ... to 0, -1, 1, -2, ..."""
    return number >> 1 if number % 2 == 0 else -(number + 1 >> 1)


def protection(bits: int) -> str:
    """rw- and the like; a number when there are other bits."""
    if bits > 7:
        return str(bits)
    return "".join(letter if bits >> i & 1 else "-" for i, letter in enumerate("rwx"))


def loads(dep: int) -> str:
    """The loads that a dependence names, as text."""
    near, apart = dep & 0xFFFF, dep >> 16
    return f"{near}:{near + apart}" if near and apart else str(near)


def control_line(kind: int, n: list[int]) -> str:
    """A control event as text."""
    fields: list[str] = []
    match kind:
        case 2:
            fields = [f"{n[0]:x}", str(n[1]), protection(n[2]), BACKING[n[3]]]
            fields += ["populate"] * n[4]
        case 3 | 20:
            fields = [f"{n[0]:x}", str(n[1])]
        case 4:
            fields = [f"{n[0]:x}", str(n[1]), protection(n[2])]
        case 5:
            fields = [f"{n[0]:x}", str(n[1]), f"{n[2]:x}", str(n[3])]
        case 6:
            fields = [f"{n[0]:x}", str(n[1]), ADVICE[n[2]] if n[2] < 5 else str(n[2] - 16)]
        case 7 | 21:
            fields = [f"{n[0]:x}"]
        case 18:
            fields = [f"{n[0]:x}", str(n[1]), TOUCH[n[2]]]
        case 12:
            fields = [str(unzigzag(n[0]))]
        case 17:
            fields = [HUGE_PAGES[n[0]]]
        case 14:
            fields = [loads(n[0])]
        case 15:
            fields = [loads(n[0]), "reconverges"]
        case 16:
            fields = [loads(n[0]), "reconverges" if n[1] else "", str(n[2])]
        case _:
            fields = [str(number) for number in n]
    return ",".join([KINDS[kind], *fields])


def sign_extend(number: int) -> int:
    """The low 32 bits, as a signed number."""
    number &= MASK32
    return number - (1 << 32) if number >> 31 else number


def accesses(found: list[bytes], count: int, made_at: list["Made"]) -> Iterator[str]:
    """The accesses of a chunk, as text; `made_at` says how they are made, if it has code."""
    shape_stream, low, high, classes, residuals = found[1:6]
    numbers = list(varints(shape_stream))
    shapes = list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
    sites = [(0, 0, 0)] * (1 << 14)
    addrs: list[int] = []
    deps: list[int] = []
    history = 0
    used = 0
    own = 0
    for i in range(count):
        made = made_at[i] if made_at else Made(0, 0, i, 0, 0)
        code = low[made.code] | high[made.code] << 8
        op, gap, d = shapes[code]
        if made_at:
            site = made.site % (1 << 14)
            gap = gap + made.gap & MASK32
        else:
            history = (history << 16 | code) & ((1 << 48) - 1)
            site = (history * 0x9E3779B97F4A7C15 & MASK64) >> 52
        last, move1, move2 = sites[site]
        if d % 2 == 0:
            dep = d // 2
            base = last
        else:
            distance = (d - 1) // 2
            known = distance <= i
            dep = (deps[i - distance] if known else 0) + distance & MASK32
            base = addrs[i - distance] if known else 0
        before = addrs[i - 1] if i > 0 else 0
        if made.back:
            addr = addrs[i - made.back] + made.offset & MASK64
        else:
            predicted = [base, base + move1, before + move2][classes[own] >> 3]
            length = classes[own] & 7
            length = 8 if length == 7 else length
            own += 1
            residual = int.from_bytes(residuals[used : used + length], "little")
            used += length
            addr = predicted + unzigzag(residual) & MASK64
            sites[site] = (addr, sign_extend(addr - base), sign_extend(addr - before))
        addrs.append(addr)
        deps.append(dep)
        further, op = "+" if op >> 13 & 1 else "", op & 0xDFFF
        kind = ("K" if op >> 14 & 1 else "") + ("S" if op >> 15 else "L") if op else "P"
        yield f"{kind}{further},{addr:x},{op & 0x1FFF},{gap},{loads(dep)}"


@dataclass
class Code:
    """The blocks defined so far: the site of their first instruction, and who makes accesses."""

    first_sites: list[int]
    accesses: list[list[tuple[int, int, int]]]
    instructions: list[int]
    next_site: int = 0


def definitions(block: Block, code: Code) -> Iterator[str]:
    """The definitions of a CODE block, as text."""
    (data,) = streams(block.payload)
    at = pc = offset = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def taken(count: int) -> bytes:
        nonlocal at
        at += count
        return data[at - count : at]

    for _ in range(block.accesses):
        kind = number()
        if kind == 0:
            yield f"file {taken(number()).decode()}"
            continue
        if kind == 2:
            name, named, function = taken(number()).decode(), 0, []
            for _ in range(number()):
                named += unzigzag(number())
                function.append(named)
            yield f"function {name} {function}"
            continue
        if kind == 3:
            path, end, ranges = taken(number()).decode(), 0, []
            for _ in range(number()):
                process, start, length = number(), end + unzigzag(number()) & MASK64, number()
                end = start + length & MASK64
                ranges.append(f"{process}:{start:x}+{length:x}")
            yield f"mapping {path} {' '.join(ranges)}"
            continue
        if kind == 4:
            path, site, line, lines = taken(number()).decode(), 0, 0, []
            for _ in range(number()):
                site += unzigzag(number())
                line += unzigzag(number())
                lines.append((site, line))
            yield f"lines {path} {lines}"
            continue
        if kind == 6:
            call, frames = number(), [f"{number()}+{number():x}" for _ in range(number())]
            yield f"allocation-site {call} {' '.join(frames)}"
            continue
        process = number()
        pc = pc + unzigzag(number()) & MASK64
        file = number()
        offset = offset + unzigzag(number()) & MASK64
        lengths = taken(number())
        content = taken(number())
        instruction = 0
        usual = []
        for _ in range(number()):
            instruction += unzigzag(number())
            back = number() if kind == 5 else 0
            usual.append((instruction, back, unzigzag(number()) if back else 0))
        makers = [maker for maker, _, _ in usual]
        follows = " ".join(f"{back}:{far}" for _, back, far in usual) if kind == 5 else "-"
        place = f"{process} {pc:x} {file} {offset:x}"
        yield f"block {place} {list(lengths)} {content.hex()} {makers} {follows}"
        pc += sum(lengths)
        offset += sum(lengths)
        code.first_sites.append(code.next_site)
        code.accesses.append(usual)
        code.instructions.append(len(lengths))
        code.next_site += len(lengths)


def entries(found: list[bytes]) -> Iterator[tuple[int, int | None]]:
    """The entries of a chunk's flow: blocks, or threads with their processes."""
    run_stream, turn_stream = found[6:8]
    turns = varints(turn_stream)
    contexts: dict[int, list[int]] = {}
    history = following = 0
    for run in varints(run_stream):
        # After the run a turn, but for the last run.
        for left in range(run, -1, -1):
            seen = contexts.setdefault((history * 0x9E3779B97F4A7C15 & MASK64) >> 49, [])
            block = seen[0] if seen else following
            if left == 0:
                turn = next(turns, -1)
                if turn == -1:
                    break
                if turn == 1:
                    yield next(turns), next(turns)
                    break
                block = seen[1] if turn == 0 else following + unzigzag(turn - 2)
            yield block, None
            if seen[:1] != [block]:
                seen[:] = [block, *seen[:1]]
            following = block + 1
            history = (history << 11 ^ following) & MASK64


@dataclass
class Made:
    """How an access is made: by which instruction, where its code is, what its address follows."""

    site: int
    gap: int
    code: int
    back: int
    offset: int


class Forms:
    """The forms of a chunk's executions: where the codes of each begin."""

    def __init__(self, stream: bytes) -> None:
        self.numbers = varints(stream)
        self.repeats = next(self.numbers, -1)
        self.recent: dict[int, list[int]] = {}
        self.used = 0

    def own(self, count: int) -> int:
        """So many codes that come next."""
        self.used += count
        return self.used - count

    def next(self, block: int, count: int) -> int:
        """The form of an execution with so many accesses."""
        recent = self.recent.setdefault(block % (1 << 13), [])
        if self.repeats == 0:
            which = next(self.numbers)
            self.repeats = next(self.numbers, -1)
            form = recent.pop(which) if which else self.own(count)
            recent.insert(0, form)
            del recent[4:]
        else:
            self.repeats -= 1
        return recent[0]


def flow(found: list[bytes], code: Code) -> Iterator[str | Made]:
    """The executions, as text, and the accesses of a chunk."""
    exceptions = varints(found[8])
    regular = next(exceptions, -1)
    forms = Forms(found[9])
    pending = 0
    for number, process in entries(found):
        if process is None:
            yield f"execute {number}"
            first, usual, length = (
                code.first_sites[number],
                code.accesses[number],
                code.instructions[number],
            )
        else:
            yield f"thread {process} {number}"
            first, usual, length, pending = 0, [], 0, 0
        if regular != 0:
            sites = [(first + instruction, back, far) for instruction, back, far in usual]
            at = forms.next(number, len(sites)) if sites else 0
            regular -= 1
        else:
            sites = []
            site = first
            for _ in range(next(exceptions)):
                site += unzigzag(next(exceptions))
                sites.append((site, 0, 0))
            at = forms.own(len(sites))
            regular = next(exceptions, -1)
        done = 0
        for index, (site, back, far) in enumerate(sites):
            gap = 0
            if done <= site - first < length:
                gap = pending + site - first - done
                done = site - first + 1
                pending = 0
            yield Made(site, gap, at + index, back, far)
        pending += length - done


def code_text(data: bytes) -> Iterator[str]:
    """The code of a trace as lines of text."""
    code = Code([], [], [])
    for block in blocks(data):
        if block.tag == b"CODE":
            yield from definitions(block, code)
        elif block.tag == b"CHNK":
            for entry in flow(streams(block.payload), code):
                yield f"site {entry.site}" if isinstance(entry, Made) else entry


def events(block: Block, code: Code) -> Iterator[tuple[str, int]]:
    """The events of a chunk: a line each, or the name of a process or thread with its number."""
    found = streams(block.payload)
    numbers = varints(found[0])
    made_at = [entry for entry in flow(found, code) if isinstance(entry, Made)]
    lines = accesses(found, block.accesses, made_at)
    done = at = 0
    for _ in range(block.controls):
        at += next(numbers)
        while done < at:
            yield next(lines), -1
            done += 1
        kind = next(numbers)
        values = [next(numbers) for _ in range(NUMBERS[kind])]
        if kind < 2:
            yield ["process", "thread"][kind], values[0]
        else:
            yield control_line(kind, values), -1
    for line in lines:
        yield line, -1


def text(data: bytes) -> Iterator[str]:
    """A trace as lines of text, with processes and threads named where they change."""
    yield "kind,addr,size,gap,dep"
    process = 0
    threads: dict[int, int] = {}
    code = Code([], [], [])
    for block in blocks(data):
        if block.tag == b"CODE":
            list(definitions(block, code))
        if block.tag != b"CHNK":
            continue
        for line, number in events(block, code):
            if line == "process":
                if number != process:
                    yield f"process,{number}"
                process = number
            elif line == "thread":
                if threads.get(process) != number:
                    yield f"thread,{number}"
                threads[process] = number
            else:
                yield line


def main() -> None:
    """Prints the trace that the command line names."""
    form = code_text if "--code" in sys.argv[2:] else text
    for line in form(Path(sys.argv[1]).read_bytes()):
        print(line)


if __name__ == "__main__":
    main()
