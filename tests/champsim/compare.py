"""Compares pagelab with ChampSim on the same traces: docs/accuracy.md, "Against ChampSim".

ChampSim is built for champsim.json beside this file (`./config.sh champsim.json && make` in a
checkout of it); machine.toml describes the same machine. Several builds may be named:

    tests/champsim/compare.py --champsim bin/champsim --champsim other/bin/champsim

Traces are made once and kept in --work. Prints a table of Markdown.
"""

import argparse
import array
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGELAB = [sys.executable, "-m", "pagelab"]
# Words of ChampSim's record of 64 bytes: pointer, flags and registers, 2 stores, 4 loads.
WORDS = 8
STORES = range(2, 4)
LOADS = range(4, 8)
INSTRUCTION_POINTER = 26
# Stack pointer, flags, instruction pointer: no loaded address goes through them.
NO_CARRIERS = (6, 25, INSTRUCTION_POINTER)

CHAINS = {
    "chase-l1": 20_000,
    "chase-l2": 20_000,
    "chase-llc": 60_000,
    "chase-dram": 80_000,
    "chase-stlb": 20_000,
}
STREAMS = {
    "chase": 25_000,
    "two-fields": 25_000,
    "four-chains": 10_000,
    "updates": 60_000,
    "loads": 60_000,
    "stream": 150_000,
    "gather": 90_000,
    "hash": 60_000,
}
# How many instructions are recorded of a program, after those left out, and how many warm up.
TAKEN, WARM_UP = 2_000_000, 700_000
PROGRAMS = {
    "sort": ("1900M", ["sort", "-n", "numbers.txt"]),
    "sqlite3": ("2300M", ["sqlite3", ":memory:", ".read work.sql"]),
    "python3": ("1300M", ["/usr/bin/python3", "-S", "work.py"]),
    "cc1": ("60M", ["cc1", "-quiet", "-O2", "work.i", "-o", "/dev/null"]),
}


@dataclass(frozen=True)
class Shared:
    """A trace both simulators read, and how much of it warms up."""

    path: Path
    records: int
    warm_records: int
    warm_accesses: int


def run(*command: str | Path, cwd: Path) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
    return done.stdout


def record(work: Path, output: str, *options: str, command: list[str]) -> int:
    """Records a command; how many instructions it was."""
    arguments = ["record", "--quiet", "--json", "--code", "-o", output, *options, "--", *command]
    done = subprocess.run(
        [*PAGELAB, *arguments], cwd=work, capture_output=True, text=True, check=False
    )
    start = done.stdout.index('{\n "accesses"')
    return int(json.loads(done.stdout[start:])["instructions"])


def inputs(work: Path) -> None:
    """What the recorded programs read."""
    state, numbers = 1, []
    for _ in range(400_000):
        state = (state * 1103515245 + 12345) % 2**31
        numbers.append(state)
    (work / "numbers.txt").write_text("".join(f"{number}\n" for number in numbers))
    (work / "work.sql").write_text(
        "CREATE TABLE t (a INTEGER, b TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
        " INSERT INTO t SELECT i * 7919 % 300007, 'row ' || i FROM n;"
        "CREATE INDEX x ON t (a); SELECT sum(length(b)) FROM t WHERE a % 3 = 1;"
    )
    (work / "work.py").write_text(
        "d = {}\nfor i in range(300000):\n"
        "    k = str(i * 7919 % 300007)\n    d[k] = d.get(k, 0) + i\n"
        "print(sum(d[k] for k in sorted(d)))\n"
    )
    source = "#include <stdio.h>\n" + "".join(
        f"int f{i}(int a, int b) {{ int s = {i}; for (int i = 0; i < a; i++)"
        f" s += i % (b + {i % 7 + 1}) ? s >> 1 : i * {i + 3}; return s ^ b; }}\n"
        for i in range(400)
    )
    (work / "work.c").write_text(source)
    run("gcc", "-E", "work.c", "-o", "work.i", cwd=work)


def make(work: Path, name: str) -> None:
    """Records a trace and writes it in ChampSim's format, and how much of it warms up."""
    if (work / f"{name}.json").exists():
        return
    own = f"{name}.trace"
    if name in PROGRAMS:
        skip, command = PROGRAMS[name]
        if name == "cc1":
            command = [run("gcc", "-print-prog-name=cc1", cwd=work).strip(), *command[1:]]
        window = ["--instructions", "--skip", skip, "--limit", str(TAKEN)]
        record(work, own, *window, command=command)
        warm = WARM_UP
    else:
        rounds = (CHAINS | STREAMS)[name]
        before = record(work, own, command=["./streams", name, "0"])
        total = record(work, own, command=["./streams", name, str(rounds)])
        warm = before + (total - before) // 2
    run(*PAGELAB, "trace", "convert", own, f"{name}.champsimtrace", cwd=work)
    (work / f"{name}.json").write_text(json.dumps({"warm": warm}))


def without_front_end(path: Path) -> Path:
    """The same trace as a core sees it that fetches without delay and predicts every branch.

    All instructions are in the same 16 bytes and none is a branch: what a branch waits for, it
    still waits for.
    """
    output = path.with_suffix(".backend.champsimtrace")
    if output.exists():
        return output
    words = array.array("Q", path.read_bytes())
    known: dict[int, int] = {}
    for word in set(words[1::WORDS]):
        fields = bytearray(word.to_bytes(8, "little"))
        if INSTRUCTION_POINTER in fields[2:4]:
            fields[0:4] = bytes(4)
        known[word] = int.from_bytes(fields, "little")
    words[1::WORDS] = array.array("Q", (known[word] for word in words[1::WORDS]))
    words[0::WORDS] = array.array("Q", [0x400000]) * (len(words) // WORDS)
    output.write_bytes(words.tobytes())
    return output


def without_arithmetic(path: Path) -> Path:
    """The same trace with dependences of loads and stores on loads only.

    A load's registers become one of 200 that loads take in turn. What needs a value that was
    computed from a load's reads that load's register, as pagelab's reader of these traces has it.
    """
    output = path.with_suffix(".loads.champsimtrace")
    if output.exists():
        return output
    words = array.array("Q", path.read_bytes())
    carried = [0] * 256
    loads = 0
    for start in range(0, len(words), WORDS):
        fields = words[start + 1].to_bytes(8, "little")
        youngest = max(carried[register] for register in fields[4:8])
        load = any(words[start + 4 : start + 8])
        store = any(words[start + 2 : start + 4])
        loads += load
        for register in fields[2:4]:
            if register not in (0, *NO_CARRIERS):
                carried[register] = loads if load else youngest
        near = youngest and loads - youngest < 200
        source = 32 + youngest % 200 if near and (load or store) else 0
        target = 32 + loads % 200 if load else 0
        words[start + 1] = fields[0] | fields[1] << 8 | target << 16 | source << 32
    output.write_bytes(words.tobytes())
    return output


def shared(work: Path, name: str, front_end: bool, arithmetic: bool) -> Shared:
    """The trace for both; what warms up is counted in records and in accesses."""
    warm = json.loads((work / f"{name}.json").read_text())["warm"]
    path = work / f"{name}.champsimtrace"
    if not front_end:
        path = without_front_end(path)
    if not arithmetic:
        path = without_arithmetic(path)
    words = array.array("Q", path.read_bytes())
    accesses = sum(
        sum(1 for address in words[place : warm * WORDS : WORDS] if address)
        for place in (*STORES, *LOADS)
    )
    return Shared(path, len(words) // WORDS, warm, accesses)


def champsim(binary: Path, trace: Shared, work: Path) -> dict[str, float]:
    """Cycles and counts of ChampSim, the latter per 1,000 instructions."""
    # Fetched ahead of the last that retires, and no trace may start again.
    taken = trace.records - trace.warm_records - 1000
    phases = ["-w", str(trace.warm_records), "-i", str(taken), "--hide-heartbeat"]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        run(binary.resolve(), *phases, "--json", report.name, trace.path.resolve(), cwd=work)
        region = json.load(report)[0]["roi"]
    core = region["cores"][0]

    def count(cache: str, key: str, *kinds: str) -> float:
        return float(sum(region[cache][kind][key][0] for kind in kinds))

    def misses(cache: str, *kinds: str) -> float:
        return count(cache, "miss", *kinds) - count(cache, "mshr_merge", *kinds)

    per = 1000 / core["instructions"]
    demand = ("LOAD", "RFO", "WRITE", "TRANSLATION")
    reads = count("cpu0_L1D", "hit", "TRANSLATION") + count("cpu0_L1D", "miss", "TRANSLATION")
    return {
        "instructions": core["instructions"],
        "IPC": core["instructions"] / core["cycles"],
        "L1D": misses("cpu0_L1D", *demand) * per,
        "L2": misses("cpu0_L2C", "LOAD", "RFO", "TRANSLATION") * per,
        "LLC": misses("LLC", "LOAD", "RFO", "TRANSLATION") * per,
        "DTLB": misses("cpu0_DTLB", "LOAD", "WRITE") * per,
        "STLB": misses("cpu0_STLB", "LOAD", "WRITE") * per,
        "walk reads": reads * per,
        "mispredicted": sum(core["mispredict"].values()) * per,
    }


def pagelab(trace: Shared, work: Path, settings: list[str]) -> dict[str, float]:
    """The same of pagelab. An instruction here is a record there, whatever accesses it makes."""
    options = [part for setting in settings for part in ("--set", setting)]
    output = run(
        *PAGELAB,
        *("simulate", "-d", "radix", "-m", HERE / "machine.toml", "-t", trace.path.resolve()),
        *("--json", "--quiet", "--warm-up", str(trace.warm_accesses), *options),
        cwd=work,
    )
    result: dict[str, Any] = json.loads(output)
    instructions = trace.records - trace.warm_records
    per = 1000 / instructions
    # Misses are given per 1,000 of pagelab's own instructions: each access is one of them.
    own = result["instructions"] / instructions
    return {
        "instructions": result["instructions"],
        "IPC": instructions / result["cycles"]["elapsed"],
        "L1D": result["caches"]["l1_mpki"] * own,
        "L2": result["caches"]["l2_mpki"] * own,
        "LLC": result["caches"]["llc_mpki"] * own,
        "DTLB": result["tlb"]["l1_misses"] * per,
        "STLB": result["tlb"]["l2_misses"] * per,
        "walk reads": result["walks"]["reads"] * per,
        "faults": sum(result["cycles"][part] for part in ("faults", "zeroing")),
    }


def rows(arguments: argparse.Namespace) -> Iterator[str]:
    """The lines of the table."""
    builds: list[Path] = arguments.champsim
    counts = ["L1D", "L2", "LLC", "DTLB", "STLB", "walk reads"]
    titles = [f"ChampSim {place}" for place in range(len(builds))]
    yield f"| trace | {' | '.join(titles)} | pagelab | {' | '.join(counts)} |"
    yield "| --- |" + " ---: |" * (len(builds) + 1 + len(counts))
    for name in arguments.names or STREAMS | PROGRAMS:
        make(arguments.work, name)
        trace = shared(arguments.work, name, arguments.front_end, not arguments.no_arithmetic)
        here = pagelab(trace, arguments.work, arguments.set)
        there = [champsim(build, trace, arguments.work) for build in builds]
        times = [f"{result['IPC']:.4g}" for result in there]
        cells = [", ".join(f"{result[key]:.2f}" for result in (*there, here)) for key in counts]
        off = here["IPC"] / there[-1]["IPC"] - 1
        times.append(f"{here['IPC']:.4g} ({off:+.1%})")
        yield f"| {name} | {' | '.join([*times, *cells])} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="traces; without, all but the plain chains")
    parser.add_argument("--champsim", type=Path, action="append", required=True)
    parser.add_argument("--work", type=Path, default=Path("champsim-traces"))
    parser.add_argument(
        "--front-end", action="store_true", help="with ChampSim's fetch and branches"
    )
    parser.add_argument("--no-arithmetic", action="store_true", help="dependences on loads only")
    parser.add_argument("--set", action="append", default=[], help="a key of pagelab's machine")
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    if not (arguments.work / "streams").exists():
        inputs(arguments.work)
        run("gcc", "-O2", "-static", HERE / "streams.c", "-o", "streams", cwd=arguments.work)
    for row in rows(arguments):
        print(row, flush=True)


if __name__ == "__main__":
    main()
