#!/usr/bin/env python3
"""Counts the instructions of fixed pieces of work, beside the committed counts.

    scripts/instructions.py show|check|baseline|history

The work is crates/machine/benches/instructions.rs, the counter valgrind's callgrind. `check` exits
with 1 when a count has grown by more than 3 %, `baseline` writes the counts into
scripts/instructions.json, `history` prints what was written there before.

Counts depend on the compiler and on the vector instructions that are used (valgrind knows none of
AVX-512), so they are kept for each; where there are none yet, `check` says so and passes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASELINE = Path("scripts/instructions.json")
# Two runs of one binary differ by a millionth or so: hash tables have random keys.
MOST = 0.03

Counts = dict[str, int]


def main(words: list[str]) -> int:
    """The exit status."""
    if words not in (["show"], ["check"], ["baseline"], ["history"]):
        print(__doc__, file=sys.stderr)
        return 2
    (wanted,) = words
    kept = read(ROOT / BASELINE)
    if wanted == "history":
        history()
        return 0
    if shutil.which("valgrind") is None:
        print("SKIPPED instructions: there is no valgrind here (scripts/system-packages.sh bench)")
        return int(wanted == "baseline")
    if wanted == "check" and not any(key.startswith(f"{compiler()}, ") for key in kept):
        print(no_counts(compiler(), kept))
        return 0
    bench = build()
    key, names = listed(bench)
    if wanted == "check" and key not in kept:
        print(no_counts(key, kept))
        return 0
    counts = count(bench, names)
    lines, failures = compare(kept.get(key, {}), counts)
    print("\n".join([key, *lines]))
    if wanted == "baseline":
        text = json.dumps(kept | {key: counts}, indent=2, sort_keys=True)
        (ROOT / BASELINE).write_text(text + "\n", encoding="utf-8")
    if wanted == "check":
        print("\n".join(f"FAILED: {failure}" for failure in failures))
        return int(bool(failures))
    return 0


def compiler() -> str:
    """What translates: its version, for which processor, and flags that change the code."""
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    flags = os.environ.get("RUSTFLAGS", "").strip()
    return " ".join(filter(None, [f"rustc {fields['release']} {fields['host']}", flags]))


def build() -> Path:
    """The program that has the work."""
    # With the module's package its dependencies have the features that they have for the module,
    # so that what was compiled for that is not compiled again.
    packages = "-p pagelab-machine -p pagelab-python"
    command = f"cargo bench --locked --no-run --message-format json {packages} --bench"
    built = subprocess.run(
        [*command.split(), "instructions"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return Path(next(path for one in reversed(messages) if (path := one.get("executable"))))


def listed(bench: Path) -> tuple[str, list[str]]:
    """What counts depend on, and the names of what can be counted."""
    command = ["valgrind", "-q", "--tool=none", str(bench)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    vectors, *names = said.splitlines()
    return f"{compiler()}, {vectors}", names


def count(bench: Path, names: list[str]) -> Counts:
    """The instructions of each, counted side by side."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(names, pool.map(lambda name: count_one(bench, name), names), strict=True))


def count_one(bench: Path, name: str) -> int:
    """The instructions that callgrind counts while the program asks it to."""
    with tempfile.TemporaryDirectory(prefix="pagelab-") as folder:
        output = Path(folder) / "callgrind.out"
        options = ["-q", "--tool=callgrind", "--instr-atstart=no"]
        run = subprocess.run(
            ["valgrind", *options, f"--callgrind-out-file={output}", str(bench), name],
            capture_output=True,
            text=True,
        )
        if run.returncode != 0:
            raise SystemExit(f"{name}: status {run.returncode}\n{run.stderr}")
        return total(output.read_text(encoding="utf-8"))


def total(text: str) -> int:
    """The instructions in all, of a file that callgrind has written."""
    found = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
    if found is None or found[1] == "0":
        raise SystemExit("callgrind has counted nothing")
    return int(found[1])


def compare(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """A line each, and what must not be."""
    lines, failures = [], []
    for name, counted in now.items():
        if name not in before:
            lines.append(f"{counted:>14,}            {name}")
            failures.append(f"{name} has no count yet: make bench-baseline")
            continue
        change = counted / before[name] - 1
        lines.append(f"{counted:>14,} {change:>+9.2%}  {name}")
        if change > MOST:
            failures.append(
                f"{name}: {counted:,} instructions, {change:.1%} more than {before[name]:,}; "
                "if they are worth it, make bench-baseline and say why in the commit"
            )
        elif change < -MOST:
            lines.append(f"{'':26}make bench-baseline, so that it stays as low")
    gone = [name for name in before if name not in now]
    failures += [f"{name} is no longer counted: make bench-baseline" for name in gone]
    return lines, failures


def no_counts(key: str, kept: Mapping[str, Counts]) -> str:
    """Why nothing can be compared."""
    return f"SKIPPED instructions: {BASELINE} has none of {key}, only of {'; '.join(sorted(kept))}"


def read(path: Path) -> dict[str, Counts]:
    """The committed counts, by what they depend on."""
    found: dict[str, Counts] = {}
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
    return found


def history() -> None:
    """Prints the counts that each commit has written, newest first."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    for line in git("log", "--format=%h %as %s", "--", str(BASELINE)).splitlines():
        print(line)
        commit = line.partition(" ")[0]
        for key, counts in json.loads(git("show", f"{commit}:{BASELINE}")).items():
            print(f"  {key}")
            print("\n".join(f"  {counted:>14,}  {name}" for name, counted in counts.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
