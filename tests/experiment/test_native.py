"""Programs run here in turns: what is run in which order, what a result depends on, what fails."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pagelab.errors import PagelabError
from pagelab.experiment.backends import native as backend
from pagelab.experiment.backends.native import Variant
from pagelab.experiment.case import Case, Failed, Result
from pagelab.experiment.work import work
from pagelab.measuring import native
from pagelab.measuring.native import HugePages, Run
from processes import alive, until


def pages(mib: int) -> Variant:
    """A program that fills a buffer of that size once."""
    command = ["dd", "if=/dev/zero", "of=/dev/null", f"bs={mib}M", "count=1"]
    return Variant(command, huge_pages=False)


def case(variants: dict[str, Variant], **changed: Any) -> Case:
    asked: dict[str, Any] = {"against": "a", "metric": "faults", "budget": 0.1} | changed
    return backend.case("a and b", variants, **asked)


def test_a_result_depends_on_the_program_behind_taskset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "one-of-ours"
    command = ["taskset", "-c", "0", "one-of-ours", "x" * 5000]
    keys = set()
    for text in ("#!/bin/sh\n", "#!/bin/sh\n:\n"):
        program.write_text(text)
        program.chmod(0o755)
        keys.add(case({"a": Variant(command), "b": Variant(command)}).key)
    assert len(keys) == 2


def test_every_round_has_every_variant_once_in_an_order_drawn_anew() -> None:
    ran: list[str] = []

    def runs(name: str) -> Callable[[], Run]:
        def one() -> Run:
            ran.append(name)
            return Run(float(len(ran)), 0.0, 0.0, 0)

        return one

    found = native.interleave(
        {name: runs(name) for name in "abc"},
        lambda so_far: () if len(so_far["a"]) == 12 else so_far,
        1e9,
        lambda _: None,
    )
    rounds = [ran[at : at + 3] for at in range(0, len(ran), 3)]
    assert len(rounds) == 13
    assert all(Counter(one) == Counter("abc") for one in rounds)
    assert len({tuple(one) for one in rounds}) > 3
    # The first round is not among what was found, and the others are in their order.
    for name, of in found.items():
        assert [run.user for run in of] == [3 * n + rounds[n].index(name) + 1 for n in range(1, 13)]


def test_who_is_settled_is_in_no_round_that_follows() -> None:
    settings = {name: lambda: Run(1, 1, 1, 1) for name in "abc"}

    def left(so_far: Mapping[str, list[Run]]) -> list[str]:
        count = len(so_far["a"])
        return [] if count == 9 else ["a", "b"] if count == 6 else ["a", "b", "c"]

    found = native.interleave(settings, left, 1e9, lambda _: None)
    assert {name: len(runs) for name, runs in found.items()} == {"a": 9, "b": 9, "c": 6}


def test_a_budget_ends_what_is_never_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second a look at the clock, one look a round: five rounds at least, then the budget."""
    for budget, rounds in [(2.5, 5), (8.5, 9), (0.5, 3)]:
        clock = iter(range(1000))
        monkeypatch.setattr("time.monotonic", lambda clock=clock: float(next(clock)))
        settings = {name: lambda: Run(1, 1, 1, 1) for name in "ab"}
        found = native.interleave(settings, lambda _: "ab", budget, lambda _: None)
        assert len(found["a"]) == len(found["b"]) == rounds


def test_page_faults_are_those_of_the_pages_that_each_touches() -> None:
    """8 and 16 MiB are 2,048 and 4,096 small pages; both programs take the same ones beside."""
    asked = case({"a": pages(8), "b": pages(16)})
    ended = work(asked.backend, asked.task)
    assert isinstance(ended, Result), ended
    assert ended.data["settled"]
    runs = {name: [Run(**run) for run in of] for name, of in ended.data["runs"].items()}
    assert len(runs["a"]) == len(runs["b"]) >= 5
    # What a busy machine takes out of the page cache is faulted in again, by either.
    more = [b.faults - a.faults for a, b in zip(runs["a"], runs["b"], strict=True)]
    assert median(more) == pytest.approx(2048, abs=20)


def test_variables_reach_the_variant_that_has_them(tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = ["sh", "-c", f'echo "${{SAYS-none}}" >> {said}']
    asked = case({"a": Variant(command), "b": Variant(command, {"SAYS": "b"})})
    assert isinstance(work(asked.backend, asked.task), Result)
    counts = Counter(said.read_text().split())
    assert counts["none"] == counts["b"] >= 6


def test_a_program_that_fails_fails_the_case_and_one_that_is_not_there_the_plan() -> None:
    asked = case({"a": Variant(["true"]), "b": Variant(["false"])})
    ended = work(asked.backend, asked.task)
    assert isinstance(ended, Failed)
    assert ended.error == "false ended with status 1"
    with pytest.raises(PagelabError, match="there is no program no-such-program"):
        case({"a": Variant(["true"]), "b": Variant(["no-such-program"])})


def test_no_huge_pages_can_be_asked_of_a_kernel_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "huge_pages", lambda: HugePages("never", None, {}))
    with pytest.raises(PagelabError, match="gives no huge pages"):
        case({"a": Variant(["true"], huge_pages=False), "b": Variant(["true"], huge_pages=True)})


def test_the_key_holds_all_that_a_result_depends_on(tmp_path: Path) -> None:
    program, data = tmp_path / "program", tmp_path / "data"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    data.write_text("1")

    def key(b: Variant | None = None, **changed: Any) -> str:
        variants = {
            "a": Variant([str(program), str(data)]),
            "b": b or Variant([str(program)], {"X": "1"}),
        }
        return case(variants, **changed).key

    before = key()
    assert key() == before
    changed = [
        key(metric="cpu"),
        key(budget=1.0),
        key(against="b"),
        key(Variant([str(program)], {"X": "2"})),
        key(Variant([str(program), "2"], {"X": "1"})),
        key(Variant([str(program)], {"X": "1"}, False)),
    ]
    data.write_text("2")
    changed.append(key())
    program.write_text("#!/bin/sh\nexit 0\n")
    changed.append(key())
    assert len({before, *changed}) == 9


RUN = """
import sys
from pagelab.measuring import native
script = 'trap "" INT TERM HUP; echo $$ > "$0"; exec sleep 1000'
native.run(["sh", "-c", script, sys.argv[1]], {}, "own")
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_ends_with_what_measures_it(tmp_path: Path, sent: signal.Signals) -> None:
    """Whatever the program does about signals that can be handled."""
    said = tmp_path / "number"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, said], stderr=subprocess.DEVNULL, start_new_session=True
    ) as measuring:
        until(lambda: said.exists() and said.read_text().endswith("\n"))
        measuring.send_signal(sent)
    program = int(said.read_text())
    until(lambda: not alive(program))
