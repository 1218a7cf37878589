#!/usr/bin/env python3
"""Advice on fourteen programs beside what runs of its own say: a row of Markdown a program.

For each, `pagelab advise` is asked. Then the setting that it names,
or the first that changed memory, is run in turns with the unchanged program, by code that shares
nothing with that of `advise`: geometric means of the rounds' ratios of processor time, with the
interval of Student's t, 99 %. Right is an advice whose direction is that of these runs.

    scripts/advice_table.py /tmp/advice
"""

import argparse
import json
import math
import os
import random
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import advice_programs
from advice_programs import Program

# Student's t of a two-sided 99 % for 29 degrees of freedom, and less for more.
STUDENT = 2.756
# A change of less than this is none, as for `advise`.
NONE = 0.01
# The gain of a setting that did nothing.
NOTHING = {"median": 1.0, "low": 1.0, "high": 1.0}


def asked(program: Program, folder: Path, seconds: int, *, why: bool) -> dict[str, Any]:
    """An advice, asked once and kept; one that says why was run a moment only."""
    kept = folder / f"{program.name.replace(' ', '-')}{'-why' if why else ''}.json"
    if not kept.exists():
        extra = ["--load", shlex.join(program.load)] if program.load else []
        extra += ["--why"] if why else []
        words = [sys.executable, "-m", "pagelab", "advise", "-q", "--json", "--time", str(seconds)]
        command = [*words, "-o", str(kept.with_suffix("")), *extra, "--", *program.command]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        kept.write_text(done.stdout)
    return json.loads(kept.read_text())


def seconds_of(program: Program, environment: dict[str, str]) -> float:
    """Processor time of a run."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        program.command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, **quiet
    )
    if program.load:
        while not listens(program.port):
            time.sleep(0.05)
        # A database answers before it is ready.
        while subprocess.run(program.load, check=False, **quiet).returncode:
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGTERM)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def listens(port: int) -> bool:
    """True if a server answers."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def truth(program: Program, environment: dict[str, str], rounds: int) -> list[float]:
    """Ratios of rounds, each of the unchanged program to the one with a setting."""
    ratios, draw = [], random.Random(1)
    for _ in range(rounds + 1):
        order = [("without", {}), ("with", environment)]
        draw.shuffle(order)
        took = {name: seconds_of(program, given) for name, given in order}
        ratios.append(took["without"] / took["with"])
    # The first warms up.
    return ratios[1:]


def mean(ratios: list[float]) -> tuple[float, float, float]:
    """The geometric mean with its interval."""
    logs = [math.log(ratio) for ratio in ratios]
    middle, half = statistics.mean(logs), STUDENT * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def direction(low: float, high: float, least: float) -> int:
    """1 where it helps, -1 where it hurts by at least so much, 0 where neither is known."""
    return (low > 1 + least) - (high < 1 - least)


def row(program: Program, folder: Path, options: argparse.Namespace) -> list[str]:
    """The cells of a program."""
    advice = asked(program, folder, options.time, why=False)
    engaged = [one for one in advice["tried"] if one["effect"] != "no effect"]
    name = advice["setting"]["name"] if advice["setting"] else None
    # Settings that did nothing are alike: any will do.
    idle = [{**one, "effect": "no effect", "faster": NOTHING} for one in advice["idle"]]
    tried = [one for one in (*engaged, *idle) if one["policy"] == "own"]
    chosen = next((one for one in tried if one["name"] == name), tried[0])
    file = folder / f"{program.name.replace(' ', '-')}-truth.json"
    if not file.exists():
        file.write_text(json.dumps(truth(program, chosen["environment"], options.rounds)))
    ratios = json.loads(file.read_text())
    middle, low, high = mean(ratios)
    said = chosen["faster"]
    between = said["low"] or 0, said["high"] or math.inf
    advised = direction(*between, NONE) if chosen in engaged else 0
    right = advised == direction(low, high, 0 if advised else NONE)
    predicted = None
    if options.why:
        model = asked(program, folder, 10, why=True)["tried"]
        predictions = {one["name"]: one["predicted"] for one in model}
        predicted = predictions.get(chosen["name"])
    runs = advice["unchanged"]["runs"]
    return [
        program.name,
        f"{statistics.median(one['user'] + one['system'] for one in runs):.2f}",
        chosen["name"],
        f"{predicted:.2f}" if predicted else "",
        f"{said['median']:.2f} ({between[0]:.2f} to {between[1]:.2f}), {len(chosen['runs'])}",
        chosen["effect"],
        f"{middle:.3f} ({low:.3f} to {high:.3f}), {len(ratios)}",
        "yes" if right else "no",
    ]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where inputs and answers are kept")
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--time", type=int, default=60, help="seconds for each advice")
    parser.add_argument("--why", action="store_true", help="also what the model predicts")
    options = parser.parse_args()
    print("| program | seconds | setting | predicted | advised | effect | runs | right |")
    print("| --- | ---: | --- | ---: | ---: | --- | ---: | --- |")
    for program in advice_programs.programs(options.folder / "inputs"):
        if options.only is None or program.name in options.only.split(","):
            print("| " + " | ".join(row(program, options.folder, options)) + " |", flush=True)


if __name__ == "__main__":
    main()
