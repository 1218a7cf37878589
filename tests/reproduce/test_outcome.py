"""Values, averages and verdicts, worked out by hand from made-up runs."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import canned
from pagelab.experiment.case import Ended, Failed, Result
from pagelab.reproduce import page
from pagelab.reproduce.claim import Answer, Claim
from pagelab.reproduce.compute import Found
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.paper import Common, Paper, Workload
from pagelab.reproduce.show import show
from pagelab.reproduce.simulated import Cell, Series, Simulated, memory_gib
from pagelab.units import number


def run(cycles: int) -> Result:
    made = canned.run("radix", accesses=1000)
    made["cycles"] |= {"elapsed": cycles}
    return Result(made, made.pop("host"))


def workload(label: str, group: str | None = None) -> Workload:
    return Workload(name="random-updates", label=label, group=group, footprint_gib=1)


WORKLOADS = [workload("A", "G"), workload("B", "G"), workload("C")]
SPEEDS = Simulated(
    title="Figure",
    shows="Speed.",
    metric="speed",
    mean="geometric",
    series=[
        Series(name="radix", design="radix", hidden=True),
        Series(name="one", design="one", against="radix"),
        Series(name="two", design="two", against="radix"),
    ],
    claim=[
        Claim(says="one over radix", series="one", value=2.0),
        Claim(says="one over two", series="one", against="two", value=4.0),
        Claim(says="two in G", series="two", row="G", value=0.5),
    ],
)
CYCLES = {
    "radix": {"A": 800, "B": 800, "C": 800},
    "one": {"A": 400, "B": 200, "C": 800},  # 2, 4 and 1 times as fast: 2 on average
    "two": {"A": 800, "B": 1600, "C": 1600},  # 1, 1/2, 1/2
}


def made_up() -> Paper:
    common = Common(title="A paper", machine="dpt-paper", workload=WORKLOADS)
    return Paper("p", Path("p"), common, {"f": SPEEDS})


def outcome(changed: dict[Cell, Ended] | None = None) -> Outcome:
    runs: dict[Cell, Ended] = {
        Cell(series, label): run(cycles)
        for series, row in CYCLES.items()
        for label, cycles in row.items()
    }
    return SPEEDS.outcome(made_up(), runs | (changed or {}))


def test_values_and_averages() -> None:
    found = outcome()
    assert found.columns == ["one", "two"]
    assert found.rows["A"] == pytest.approx([2.0, 1.0])
    assert found.rows["G"] == pytest.approx([8**0.5, 0.5**0.5])
    assert found.rows["mean"] == pytest.approx([2.0, 0.25 ** (1 / 3)])
    assert found.failures == []


def test_claims() -> None:
    over_radix, over_two, in_group = outcome().answers
    assert over_radix.ours == pytest.approx(2.0)
    assert over_radix.off == pytest.approx(0.0)
    assert over_radix.verdict == "near"
    # 2/1, 4/0.5 and 1/0.5 have the geometric mean 32 ** (1 / 3); 3 are gained in the paper.
    assert over_two.ours == pytest.approx(32 ** (1 / 3))
    assert over_two.off == pytest.approx((32 ** (1 / 3) - 4) / 3)
    assert in_group.off == pytest.approx((0.5**0.5 - 0.5) / 0.5)
    assert in_group.verdict == "far"


def test_an_average_with_a_part_missing_is_not_made_up() -> None:
    found = outcome({Cell("one", "B"): Failed("no room", {})})
    assert found.rows["B"] == [None, pytest.approx(0.5)]
    assert found.rows["mean"][0] is None
    assert found.answers[0].verdict == "not computed"
    [failure] = found.failures
    assert failure.startswith("one over B: ")


@pytest.mark.parametrize(
    ("paper", "ours", "relative", "verdict"),
    [
        (1.126, 1.10, True, "near"),  # gains 0.10 of 0.126
        (1.126, 1.08, True, "far"),
        (7.5, 5.1, False, "near"),
        (7.5, 4.9, False, "far"),
        (1.0, 1.009, True, "near"),
        (1.0, 1.02, True, "far"),
    ],
)
def test_a_third_off_is_far(paper: float, ours: float, relative: bool, verdict: str) -> None:
    claim = Claim(says="", series="s", value=paper)
    answer = Answer(claim=claim, ours=ours, relative=relative)
    assert answer.verdict == verdict


def test_a_bound_holds_or_does_not() -> None:
    bound = Claim(says="", series="s", value=0.0007, relation="below")
    assert Answer(claim=bound, ours=0.0006).verdict == "holds"
    assert Answer(claim=bound, ours=0.0008).verdict == "does not hold"
    assert Answer(claim=bound, ours=0.0006, low=0.0005, high=0.0008).verdict == "undecided"
    above = bound.model_copy(update={"relation": "above"})
    assert Answer(claim=above, ours=0.0008, low=0.00071, high=0.001).verdict == "holds"
    assert Answer(claim=above, ours=0.0006).verdict == "does not hold"
    assert Answer(claim=above, ours=0.0008, low=0.0005, high=0.001).verdict == "undecided"


def test_a_conclusion_has_no_number() -> None:
    claim = Claim(says="It is slow.", relation="concludes")
    verdicts = [Answer(claim=claim, agrees=agrees).verdict for agrees in (True, False, None)]
    assert verdicts == ["agrees", "does not agree", "open"]
    with pytest.raises(ValueError, match="a claim has a value"):
        Claim(says="It is slow.", relation="concludes", value=1)
    with pytest.raises(ValueError, match="a claim has a value"):
        Claim(says="It is 2.")


def test_the_page_has_every_number_and_what_is_missing(tmp_path: Path) -> None:
    found = outcome({Cell("one", "B"): Failed("<no room>", {})})
    file = tmp_path / "new" / "report.html"
    page.write([Found(made_up(), [found])], [("machine", "dpt-paper")], file)
    html = file.read_text()
    assert "2.000" in html
    assert "one over B: &lt;no room&gt;" in html


@pytest.mark.parametrize(
    ("footprint", "utilisation", "gib"),
    [(8, 0.0, 16), (8, 0.7, 32), (10, 0.7, 64), (33, 0.7, 128), (100, 0.7, 128)],
)
def test_memory_is_the_least_power_of_two_that_holds_the_footprint(
    footprint: float, utilisation: float, gib: int
) -> None:
    assert memory_gib(footprint, utilisation, {"memory_bytes": 16 << 30}) == gib


def test_memory_may_be_less_than_a_gib() -> None:
    assert memory_gib(0.25, 0.0, {"memory_bytes": 512 << 20}) == 1
    assert memory_gib(3, 0.0, {"memory_bytes": 512 << 20}) == 4


def sampled(cycles: list[int]) -> Result:
    made = canned.run("radix", accesses=1000)
    made["cycles"] |= {"elapsed": sum(cycles)}
    made["windows"] = [canned.window(cycles=cycle) for cycle in cycles]
    return Result(made, made.pop("host"))


def test_windows_that_vary_together_leave_no_doubt() -> None:
    changed: dict[Cell, Ended] = {}
    for label in ("A", "B", "C"):
        changed[Cell("radix", label)] = sampled([100, 400, 200])
        changed[Cell("one", label)] = sampled([50, 200, 100])
        changed[Cell("two", label)] = sampled([100, 100, 500])
    over_radix, over_two, _ = outcome(changed).answers
    assert over_radix.ours == pytest.approx(2.0)
    assert over_radix.low == pytest.approx(2.0)
    assert over_radix.high == pytest.approx(2.0)
    # Cycles 50, 200, 100 over 100, 100, 500: by hand, with t(2 degrees) = 4.303.
    ratio = 350 / 700
    residuals = [(50 - ratio * 100) ** 2, (200 - ratio * 100) ** 2, (100 - ratio * 500) ** 2]
    relative = 4.303 * (sum(residuals) / 2 / 3) ** 0.5 / (700 / 3) / ratio
    assert over_two.high is not None
    assert over_two.ours is not None
    half = over_two.high - over_two.ours
    # The mean of three workloads alike is sure by the square root of three.
    assert half / over_two.ours == pytest.approx(relative / 3**0.5, rel=1e-3)


def test_a_table_that_is_wider_than_the_terminal_is_printed_as_several() -> None:
    rows: dict[str, list[float | None]] = {
        f"row {i}": [1000.125 + 10 * i + place for place in range(12)] for i in range(3)
    }
    wide = Outcome(
        name="wide",
        title="Wide",
        shows="Much.",
        columns=[f"a long heading, {place}" for place in range(12)],
        rows=dict(rows),
    )
    for width in (40, 80, 200):
        printed_to = io.StringIO()
        show(wide, Console(width=width, file=printed_to))
        lines = printed_to.getvalue().splitlines()
        # Every number once and whole, in its row, and headings to their last word.
        for label, values in rows.items():
            printed = [
                word for line in lines if line.startswith(label) for word in line.split()[2:]
            ]
            assert printed == [number(value) for value in values]
        for place in range(12):
            assert any(str(place) in line.split() for line in lines)
        assert all(len(line) <= width for line in lines)
