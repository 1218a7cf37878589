"""Tables of what guests measured: medians, pairs, shares, and what cannot be compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pagelab.errors import PagelabError
from pagelab.experiment.backends import checkout, guest
from pagelab.experiment.backends.guest import place
from pagelab.experiment.case import Case, Ended, Failed, Result
from pagelab.linux import layout, manager
from pagelab.reproduce import paired, placement
from pagelab.reproduce.claim import Claim
from pagelab.reproduce.guests import Guests, Series
from pagelab.reproduce.nodes import Nodes, share
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.paper import Changes, Common, Paper

PAPER = Paper("p", Path("p"), Common(title="P"), {})
OFF = Series(name="off", suite="s/e", without="new=on")
ON = Series(name="on", suite="s/e", parameter="new=on")
FORK = Guests(
    title="t",
    shows="",
    kind="guest",
    bench="fork",
    unit="page",
    ratio=("off", "on"),
    series=[OFF, ON],
    claim=[Claim(says="", series="off", against="on", row="64 KB", value=1.5)],
)


@pytest.fixture(autouse=True)
def boots(monkeypatch: pytest.MonkeyPatch) -> None:
    """No machine need be able to run them."""
    monkeypatch.setattr(guest, "cases", lambda *_, **__: [])


def sample(ns: int, kb: int = 64, bench: str = "fork", copies: int = 0) -> dict[str, Any]:
    return {"bench": bench, "folio_kb": kb, "pages": 10, "ns": ns, "copies": copies}


def boot(*samples: dict[str, Any], counts: list[list[int]] | None = None) -> Result:
    return Result({"printed": list(samples), "counts": counts or [], "icount": False}, {})


def table(figure: Guests, **sides: Sequence[Ended]) -> Outcome:
    ended = {(name, at): one for name, found in sides.items() for at, one in enumerate(found)}
    return figure.outcome(PAPER, ended)


def test_medians_of_each_side() -> None:
    off = [boot(sample(1000), sample(90000)), boot(sample(3000))]
    found = table(FORK, off=off, on=[boot(sample(1500), sample(1500), sample(10))])
    assert found.columns == ["off", "on", "off/on"]
    assert found.rows == {"64 KB": [300.0, 150.0, 2.0]}
    [answer] = found.answers
    assert (answer.ours, answer.relative, answer.verdict) == (2.0, True, "far")
    assert found.shows == "Nanoseconds per page."


def test_a_printed_number_may_stand_for_time() -> None:
    figure = FORK.model_copy(update={"number": "copies"})
    off, on = boot(sample(1, copies=5)), boot(sample(1, copies=20))
    found = table(figure, off=[off], on=[on])
    assert found.shows == "Copies per page."
    assert found.rows == {"64 KB": [0.5, 2.0, 0.25]}


def test_other_benchmarks_stay_out_and_sizes_measured_once_have_no_ratio() -> None:
    off = boot(sample(1), sample(1, kb=16), sample(1, bench="munmap", kb=32))
    found = table(FORK, off=[off], on=[boot(sample(1), sample(1, kb=2048))])
    assert found.rows["16 KB"] == [0.1, None, None]
    assert found.rows["2048 KB"] == [None, 0.1, None]
    assert "32 KB" not in found.rows


def test_counted_instructions_stand_for_time() -> None:
    counted = FORK.model_copy(update={"values": ["time", "copies", "atomics"]})
    on = boot(sample(999), sample(999, copies=5), counts=[[50, 3], [50, 3]])
    found = table(counted, off=[boot(sample(1), counts=[[100, 7]])], on=[on])
    assert found.shows == "Instructions per page."
    assert found.columns[3:] == ["off: copies", "on: copies", "off: atomics", "on: atomics"]
    assert found.rows["64 KB"] == [10.0, 5.0, 2.0, 0.0, 0.25, 0.7, 0.3]


def test_rows_may_be_benchmarks() -> None:
    small = FORK.model_copy(
        update={"bench": None, "where": {"folio_kb": 4}, "row": "bench", "row_name": "{}"}
    )
    off = boot(sample(10, 4), sample(20, 4, "munmap"), sample(1, 64))
    found = table(small, off=[off], on=[boot(sample(30, 4))])
    assert found.rows == {"fork": [1.0, 3.0, 1 / 3], "munmap": [2.0, None, None]}


def test_a_guest_that_failed_is_reported_with_what_is_there() -> None:
    found = table(FORK, off=[boot(sample(1))], on=[Failed("the kernel panicked\nand more", {})])
    assert found.rows == {"64 KB": [0.1, None]} or found.rows == {"64 KB": [0.1, None, None]}
    assert found.failures == ["on, boot 1: the kernel panicked"]
    assert found.answers[0].verdict == "not computed"


def test_a_kernel_that_is_not_built_leaves_its_series_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cases(name: str) -> list[Any]:
        raise PagelabError(f"{name} needs a kernel")

    monkeypatch.setattr(guest, "cases", cases)
    with pytest.raises(PagelabError, match="s/e needs a kernel"):
        FORK.cases(PAPER, Changes())
    job = type("Job", (), {"append": "quiet new=on"})
    case = Case("guest", "l", {}, 1)
    monkeypatch.setattr(
        guest, "cases", lambda name: [(job, case)] if name == "s/on" else cases(name)
    )
    split = FORK.model_copy(update={"series": [OFF, ON.model_copy(update={"suite": "s/on"})]})
    assert split.cases(PAPER, Changes()) == {("on", 0): case}
    assert table(split, on=[boot(sample(1))]).failures == ["s/e needs a kernel"]


PAIRS = FORK.model_copy(
    update={
        "ratio": ("on", "off"),
        "pairs": True,
        "claim": [Claim(says="slower", series="on", against="off", row="every", value=1.02,
                        relation="below")],
    }
)  # fmt: skip


# Rank from either end, e.g. Conover, Practical Nonparametric Statistics, table A3.
@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)]
)
def test_ranks_of_the_sign_test(n: int, rank: int) -> None:
    ratio = paired.interval(range(n, 0, -1))
    assert (ratio.low, ratio.high) == (rank, n + 1 - rank)


def test_too_few_pairs_bound_nothing() -> None:
    with pytest.raises(PagelabError, match="at least 6"):
        paired.interval([1.0] * 5)
    found = table(PAIRS, off=[boot(sample(1))], on=[boot(sample(1))])
    assert found.rows == {}


def test_what_both_boots_of_a_pair_suffer_cancels() -> None:
    drift = [1000, 8000, 2000, 9000, 1000, 4000]
    off = [boot(sample(ns, 4), sample(ns, 64), sample(ns, 2048)) for ns in drift]
    on = [boot(sample(ns, 4), sample(ns * 2, 64), sample(ns * 8, 2048)) for ns in drift]
    found = table(PAIRS, off=off, on=on)
    assert found.rows["4 KB"] == [300.0, 300.0, 1.0, 1.0, 1.0]
    assert found.rows["64 KB"][3] == 2.0
    assert found.rows["2048 KB"][4] == 8.0
    assert found.rows["all but 4 KB"][2] == pytest.approx(4.0)
    says = [(answer.claim.says, answer.verdict) for answer in found.answers]
    assert says[0] == ("4 KB: slower", "holds")
    assert says[3] == ("all but 4 KB: slower", "does not hold")


def test_a_boot_stands_for_its_fastest_round_and_a_wide_interval_decides_nothing() -> None:
    off = [boot(sample(1000))] * 6
    rounds = [(1000, 9), (1010, 1), (1005, 3), (1030, 2), (1000, 4), (1000, 7)]
    on = [boot(sample(ns * more), sample(ns)) for ns, more in rounds]
    found = table(PAIRS, off=off, on=on)
    assert found.rows["64 KB"] == [100.0, pytest.approx(100.25), pytest.approx(1.0025), 1.0, 1.03]
    assert {answer.verdict for answer in found.answers} == {"undecided"}


def test_the_share_is_of_all_loads() -> None:
    counts = [[90, 10, 1, 2, 30, 10], [50, 50, 3, 4, 0, 40]]
    assert share(counts, slice(0, 2)) == 60 / 200
    assert share(counts, slice(4, 6)) == 50 / 80


def test_stretches_before_and_after_the_hot_set_moves() -> None:
    figure = Nodes(title="t", shows="", kind="nodes", suites={"Linux": "s/e"},
                   claim=[Claim(says="", series="Linux", row="all", value=0.2)])  # fmt: skip
    remote = [5, 1, 9, 2]
    data = {
        "printed": [{"moved": moved} for moved in (0, 0, 1, 1)],
        "counts": [[10 - far, far, 0, 0, 0, 0] for far in remote],
    }
    found = figure.outcome(PAPER, {"Linux": Result(data, {})})
    assert found.rows == {
        "first": [0.5], "before the move": [0.1], "after it": [0.9], "last": [0.2],
        "all": [17 / 40],
    }  # fmt: skip
    assert found.answers[0].ours == 17 / 40
    assert found.drawn is not None
    assert list(found.drawn[1].values()) == [[0.5], [0.1], [0.9], [0.2]]


def test_the_least_possible_is_beside_what_was() -> None:
    figure = Nodes(title="t", shows="", kind="nodes", suites={"tiered": "s/e"},
                   reads=["misses", "least"])  # fmt: skip
    # Of 40 misses 10 were remote, and 6 had to be; of 60 then 30, and 12.
    data = {
        "printed": [{}, {}],
        "counts": [[90, 30, 1, 2, 30, 10, 34, 6], [90, 90, 1, 2, 30, 30, 48, 12]],
    }
    found = figure.outcome(PAPER, {"tiered": Result(data, {})})
    assert found.columns == ["tiered: misses", "tiered: least"]
    assert found.rows["1"] == [0.25, 0.15]
    assert found.rows["last"] == [0.5, 0.2]
    assert found.rows["all"] == [0.4, 0.18]


def test_exact_placement_by_a_slow_round_robin() -> None:
    for weights in ([1, 1], [3, 2], [1, 3], [5, 2]):
        turn = [0] * weights[0] + [1] * weights[1]
        for pages in range(40):
            counts = {
                sum(turn[(start + page) % len(turn)] == 0 for page in range(pages))
                for start in range(len(turn))
            }
            least, most = placement.expected(weights, pages)
            assert least <= min(counts) <= max(counts) <= most


def test_ranges_are_where_their_files_are_mapped() -> None:
    maps = (
        "7f0000010000-7f0000014000 rw-p 00020000 00:1b 77   /anon (deleted)\n"
        "7f0000014000-7f0000015000 r--p 00000000 00:00 0 \n"
    )
    # Pages 0x20 to 0x23 of file 77 are mapped; file 78 is not.
    written = "77 16 18 1000\n77 34 10 5000\n78 0 5 1\n"
    first = 0x7F0000010
    assert place(maps, written) == [(first, 2, 1016), (first + 2, 2, 5000)]


def test_lines_that_a_patch_adds() -> None:
    patch = (
        "--- a/mm/x.c\n+++ b/mm/x.c\n@@ -1 +1,2 @@\n-old\n+new\n+more\n"
        "--- /dev/null\n+++ b/y.h\n@@ -0,0 +1 @@\n+z\n"
    )
    assert checkout.changed(patch) == {"files": 2, "lines": 3}


def test_tests_are_not_counted_as_a_module(tmp_path: Path) -> None:
    for name, lines in (("a.c", 3), ("a.h", 2), ("a_kunit.c", 7), ("Kbuild", 5)):
        (tmp_path / name).write_text("x\n" * lines)
    assert checkout.count(tmp_path) == {"files": 2, "lines": 5}


def test_each_memory_file_system_is_counted() -> None:
    where = layout.find()
    case = checkout.lines("0011-mm-let-private-anonymous-memory-be-files.patch")
    found = checkout.run(case.task, lambda *_: True)
    assert set(found) == {*manager.names(where), manager.LIBRARY, "kernel"}
    for name in manager.names(where):
        assert 50 < found[name]["lines"] < 1500
