"""`pagelab diff` of results and of advice: what fails got worse for certain."""

import copy
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import canned
import rounds
from emulators import needs_recorder
from pagelab import changes
from pagelab.advising import saved, show, verdict
from pagelab.cli import app
from pagelab.counts import SampleWindow
from pagelab.errors import UsageError
from pagelab.results import Comparison

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def diff(*words: str) -> Result:
    return CliRunner().invoke(app, ["diff", *words])


def failed(*words: str) -> list[str]:
    done = diff("--json", *words)
    told = json.loads(done.stdout)["failed"]
    assert done.exit_code == bool(told), done.output
    return list(told)


def _write(name: str, whole: dict[str, Any]) -> str:
    folder = Path(name)
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(whole))
    return name


def _slower(design: str, times: float) -> dict[str, Any]:
    """The canned comparison with one design slower."""
    whole = canned.comparison()
    for run in whole["runs"]:
        if run["design"] == design:
            for key in ("elapsed", "total"):
                run["cycles"][key] = round(run["cycles"][key] * times)
    return whole


def test_what_got_slower_by_more_than_the_limit_fails() -> None:
    first, second = _write("a", canned.comparison()), _write("b", _slower("dpt", 1.03))
    [told] = failed("--fail-above", "2%", first, second)
    assert told == "The time of dpt 4K on dpt-paper grew by 3.0 %, above 2 %."
    assert not failed("--fail-above", "3.5 %", first, second)
    # Faster is no failure.
    assert not failed("--fail-above", "0%", second, first)
    # Nor is another figure than the one that is judged.
    assert not failed("--fail-above", "2%", "--measure", "memory", first, second)
    assert len(failed("--fail-above", "2%", "--measure=memory", "--measure=time", first, second))
    # Without a limit every difference counts, as of diff(1).
    assert (diff(first, second).exit_code, diff(first, first).exit_code) == (1, 0)


def test_free_translation_is_judged_only_by_itself() -> None:
    first, second = _write("a", canned.comparison()), _write("b", _slower("ideal", 2))
    assert not failed("--fail-above", "2%", first, second)
    alone = canned.comparison("ideal")
    slow = _slower("ideal", 2)
    slow["runs"] = slow["runs"][2:]
    assert failed("--fail-above", "2%", _write("c", alone), _write("d", slow))


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_what_the_second_lacks_fails(how: str) -> None:
    lacking = canned.comparison()
    if how == "gone":
        lacking["runs"] = [lacking["runs"][0], lacking["runs"][2]]
    else:
        lacking["runs"][1] = canned.run("dpt", complete=False)
    first, second = _write("a", canned.comparison()), _write("b", lacking)
    [told] = failed("--fail-above", "2%", first, second)
    assert told == "dpt 4K on dpt-paper is in a and not, or not whole, in b."
    assert not failed("--fail-above", "2%", second, first)


def test_machines_that_changed_are_named() -> None:
    other = canned.comparison()
    for run in other["runs"]:
        run["machine"]["tlb"]["l2_cycles"] = 77
    told = diff(_write("a", canned.comparison()), _write("b", other))
    assert "dpt-paper differs between the two in tlb.l2_cycles." in told.stdout


BASE = Comparison.model_validate(canned.comparison("radix"))


def _sampled(draw: random.Random, cpi: float, spread: float, windows: int) -> Comparison:
    """A sample of a program of known cycles per instruction: windows vary about it."""
    each = 100_000
    made = []
    for _ in range(windows):
        cycles = round(each * cpi * draw.uniform(1 - spread, 1 + spread))
        raw = canned.window(instructions=each, accesses=draw.randrange(9000, 9999), cycles=cycles)
        gap = canned.gap(instructions=19 * each)
        made.append(SampleWindow.model_validate({**raw, "after": gap}))
    return BASE.model_copy(update={"runs": [BASE.runs[0].model_copy(update={"windows": made})]})


def _worse(draw: random.Random, times: float, spread: float, limit: float) -> str:
    one, other = (_sampled(draw, cpi, spread, 30) for cpi in (1.0, times))
    [time] = [one for one in changes.of_results(one, other).changes if one.measure == "time"]
    return time.judge(limit)


def test_of_samples_chance_does_not_fail_and_a_real_change_does() -> None:
    draw = random.Random(4)
    by_chance = [_worse(draw, 1.02, 0.3, 0.02) for _ in range(300)]
    # Student's interval is above the truth in one of forty.
    assert by_chance.count("above") <= 15
    assert by_chance.count("unclear") > 250
    assert {_worse(draw, 1.2, 0.02, 0.02) for _ in range(50)} == {"above"}
    assert {_worse(draw, 0.9, 0.02, 0.02) for _ in range(50)} == {"within"}


def _advice(
    draw: random.Random, gain: float, *, noise: float = 0.01, count: int = 20, pace: float = 1.0
) -> dict[str, Any]:
    """A file of an advice on one setting, by made-up rounds."""
    decided = verdict.decide(rounds.made_up(draw, gain, noise, count, pace))
    host = {"cpu": "a", "kernel": "b", "transparent_hugepage": "madvise"}
    return show.as_json(decided, ["sort"], [], host)


def _saved(name: str, whole: dict[str, Any]) -> str:
    folder = Path(name)
    folder.mkdir()
    (folder / "advice.json").write_text(json.dumps(whole))
    return name


def test_a_gain_that_is_lost_fails() -> None:
    draw = random.Random(5)
    first, second = _saved("a", _advice(draw, 1.3)), _saved("b", _advice(draw, 1.0))
    [told] = failed("--fail-above", "2%", first, f"{second}/advice.json")
    assert told.startswith("The gain of huge fell by")
    # One that grew does not.
    assert not failed("--fail-above", "2%", second, first)
    few = _saved("c", _advice(draw, 1.0, count=5))
    assert not failed("--fail-above", "2%", first, few)
    assert "NOT TOLD: The gain of huge" in diff("--fail-above", "2%", first, few).stdout


def test_advice_on_the_same_program_fails_by_chance_hardly_ever() -> None:
    draw = random.Random(6)
    failures = 0
    for _ in range(300):
        pair = [
            saved.Saved.model_validate(_advice(draw, 1.1, noise=draw.choice([0.01, 0.1])))
            for _ in range(2)
        ]
        found = [one for one in changes.of_advice(*pair).changes if one.measure == "gain"]
        failures += any(one.judge(0.0) == "above" for one in found)
    assert failures <= 3


def test_times_of_advice_are_judged_where_asked() -> None:
    draw = random.Random(7)
    first = _saved("a", _advice(draw, 1.3, noise=0.001))
    second = _saved("b", _advice(draw, 1.3, noise=0.001, pace=9.0))
    assert not failed("--fail-above", "50%", first, second)
    assert len(failed("--fail-above", "50%", "--measure", "time", first, second)) == 2


BROKEN: list[tuple[str, Any]] = [
    ("unchanged.runs.0.user", "x"),
    ("unchanged.runs", []),
    ("tried.0.faster", None),
    ("tried.0.runs.0.faults", -1),
    ("rounds", None),
]


@pytest.mark.parametrize(("place", "value"), BROKEN)
def test_a_broken_advice_is_refused(place: str, value: Any) -> None:
    whole = _advice(random.Random(8), 1.0)
    good = _saved("a", copy.deepcopy(whole))
    *parts, last = place.split(".")
    part: Any = whole
    for key in parts:
        part = part[int(key)] if key.isdigit() else part[key]
    part[last] = value
    error = diff(good, _saved("b", whole)).exception
    assert isinstance(error, UsageError)
    assert "b/advice.json is no advice" in str(error)


def test_what_is_no_pair_of_results_is_refused() -> None:
    result = _write("a", canned.comparison())
    advice = _saved("b", _advice(random.Random(9), 1.0))
    Path("c").mkdir()
    Path("no.json").write_text("{")
    Path("deep.json").write_text("[" * 100_000)
    for words in (
        (result, advice),
        (result, "nothing"),
        (result, "c"),
        (result, "no.json"),
        (result, "deep.json"),
        (result, result, "--measure", "gain"),
        (result, result, "--fail-above", "2"),
        (result, result, "--fail-above", "-2%"),
        (result, result, "--fail-above", "nan%"),
    ):
        done = diff(*words)
        assert isinstance(done.exception, UsageError | SystemExit), words
        assert done.exit_code != 0


PROGRAM = """
#include <stdlib.h>
int main(void) {
    size_t size = (size_t)PAGES << 12;
    char *memory = malloc(size);
    for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
    return memory[0] - 1;
}
"""


def _commit(pages: int) -> None:
    Path("program.c").write_text(PROGRAM.replace("PAGES", str(pages)))
    Path("Makefile").write_text("program: program.c\n\tcc -o program program.c\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "program.c", "Makefile"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], check=True)


def _steps() -> dict[str, str]:
    """The commands of the guide's workflow, by the name of the step."""
    page = (ROOT / "docs/guide/ci.md").read_text()
    steps = re.findall(
        r"- name: (\w+)\n(?:        env: .*\n)?        run: (.*\n(?: {10}.*\n)*)", page
    )
    return {name: text.removeprefix("|\n") for name, text in steps}


@needs_recorder
@pytest.mark.parametrize(("pages", "status"), [(400, 1), (201, 0)])
def test_the_workflow_of_the_guide_fails_a_slower_program(pages: int, status: int) -> None:
    _commit(200)
    _commit(pages)
    command = Path("bin/pagelab").absolute()
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pagelab "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "BASE": "HEAD^", "PATH": f"{command.parent}:{os.environ['PATH']}"}
    steps = _steps()
    assert set(steps) == {"install", "before", "after", "compare"}
    ended = [
        subprocess.run(["bash", "-e", "-c", steps[name]], env=environment, check=False).returncode
        for name in ("before", "after", "compare")
    ]
    assert ended == [0, 0, status]
