"""The text of the answer never contradicts the table beside it, whatever the runs were."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import canned
from pagelab.counts import CYCLE_PARTS, Blocks, BySize, Cycles, SampleWindow
from pagelab.results import Comparison, Run
from pagelab.table import speed

WHOLE = Comparison.model_validate(canned.comparison("radix", "dpt", "ideal"))
BY_DESIGN = {run.design: run.model_copy(update={"timeline": []}) for run in WHOLE.runs}

PERCENT = r"(\d[\d,.]*)(?: \N{PLUS-MINUS SIGN} ([\d.]+))? %"


@st.composite
def runs(draw: st.DrawFn, design: str, pages: str) -> Run:
    """A run with any shares of its time, memory and pages given."""
    parts = {part: draw(st.integers(0, 10 ** draw(st.integers(0, 9)))) for part in CYCLE_PARTS}
    total = sum(parts.values()) + 1
    cycles = Cycles(elapsed=total, total=total, frequency_hz=1e9, **parts)
    blocks = None
    if pages != "4K":
        counts = {name: draw(st.integers(0, 3)) for name in Blocks.model_fields}
        blocks = Blocks.model_validate(counts)
    memory = draw(st.integers(0, 40))
    known = BY_DESIGN[design]
    os = known.os.model_copy(update={"peak_resident_bytes": 1 << memory, "blocks": blocks})
    return known.model_copy(update={"pages": pages, "cycles": cycles, "os": os})


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    """Runs of several designs and page sizes, whole or sampled in the same windows."""
    sizes = draw(st.lists(st.sampled_from(["2M", "64K", "madvise", "1G"]), unique=True, max_size=3))
    designs = ["radix", *draw(st.lists(st.sampled_from(["dpt", "ideal"]), unique=True))]
    made = [draw(runs(design, pages)) for pages in ("4K", *sizes) for design in designs]
    if draw(st.booleans()):
        made = [_sampled(run, draw) for run in made]
    setting = draw(st.sampled_from([None, "always", "madvise", "never"]))
    host: dict[str, Any] = {"transparent_hugepage": setting} if setting else {}
    return WHOLE.model_copy(update={"runs": made, "host": host})


def _sampled(run: Run, draw: st.DrawFn) -> Run:
    shares = [draw(st.integers(1, 9)) for _ in range(3)]
    windows = [
        SampleWindow.model_validate(
            canned.window(
                instructions=100,
                accesses=10,
                cycles=run.cycles.elapsed * share // sum(shares) + 1,
            )
        )
        for share in shares
    ]
    return run.model_copy(update={"windows": windows})


def cell(comparison: Comparison, run: Run) -> str:
    """The table's figure of a run's speed without its sign."""
    text = speed(comparison, run).replace("\N{MINUS SIGN}", "").replace("+", "")
    return re.sub(r" \N{PLUS-MINUS SIGN}(\S)", " \N{PLUS-MINUS SIGN} \\1", text)


@given(comparisons())
@settings(max_examples=100)
def test_the_text_says_what_the_table_says(comparison: Comparison) -> None:
    answer = comparison.answer
    [decision] = answer.decisions
    base = comparison.baseline
    rivals = [run for run in comparison.runs if run is not base and run.design != "ideal"]
    assert (decision.effect == "not asked") == (not rivals)
    if not rivals:
        assert answer.headline.startswith("Translation costs this program")
        return
    best = max(rivals, key=comparison.speedup)
    assert decision.best == comparison.label(best)
    gain = comparison.speedup(best) - 1
    said = answer.headline
    if decision.effect == "helps":
        assert gain > 0
        assert (
            f"Yes: {decision.change} would run this program {cell(comparison, best)} faster" in said
        )
    elif decision.effect == "hurts":
        # Then there is none that helps.
        assert all(comparison.speedup(run) < 1 for run in rivals)
        assert f"would run this program {cell(comparison, best)} slower" in said
        assert said.startswith("No: ")
    elif decision.effect == "no difference":
        assert abs(gain) < 0.03
        assert said.startswith("No: ")
        assert "no difference" in said
    else:
        assert said.startswith("That cannot be told from this sample")
        assert best.windows
    _check_memory(said, base, best)
    # Nobody is told to type anything that does not help.
    if decision.effect not in ("helps", "unknown"):
        assert answer.advice == []
    if decision.effect != "helps":
        assert "echo" not in answer.text


def _check_memory(said: str, base: Run, best: Run) -> None:
    if " more memory" in said:
        assert best.memory > base.memory
    elif " less memory" in said:
        assert best.memory < base.memory
    elif "as much memory" in said:
        assert abs(best.memory - base.memory) < max(0.005 * base.memory, 1 << 16)


@given(comparisons())
@settings(max_examples=100)
def test_shares_are_shares_and_go_the_way_that_is_said(comparison: Comparison) -> None:
    answer = comparison.answer
    [decision] = answer.decisions
    pairs = re.findall(rf"{PERCENT}(?: of [^,.]*?)? instead of {PERCENT}", answer.reason)
    for after, _, before, _ in pairs:
        assert 0 <= float(before) <= 100
        assert 0 <= float(after) <= 100
    if pairs and decision.effect == "helps":
        after, _, before, _ = pairs[0]
        assert float(after) < float(before)
    for share in re.findall(r"(?:costs|zeroing|take) (\d[\d.]*)(?: \S+ [\d.]+)? %", answer.text):
        assert 0 <= float(share) <= 100
    # A bound is one.
    bound = re.search(r"Free translation, the bound .*? would gain ([\d.]+)", answer.text)
    same = [run for run in comparison.runs if run.pages == comparison.baseline.pages]
    if bound:
        assert (
            max(comparison.speedup(run) for run in same) - 1 < float(bound[1]) / 100 * 1.006 + 0.006
        )


def test_what_a_hypervisor_has_to_give_first_may_decide() -> None:
    """Half the time, but ten times the zeroing where memory was idle, a tenth where it was not."""
    cost = {
        "zero_4k_ns": 100.0,
        "zero_2m_ns": 51_200.0,
        "zero_2m_between_ns": [5_120.0, 512_000.0],
    }
    made = []
    for pages, total, counts in [("4K", 1000, {"4K": 512}), ("2M", 500, {"2M": 1})]:
        known = BY_DESIGN["radix"]
        parts = dict.fromkeys(CYCLE_PARTS, 0) | {"data": total - 100, "zeroing": 100}
        cycles = Cycles(elapsed=total, total=total, frequency_hz=1e9, **parts)
        sizes = BySize.model_validate({"4K": 0, "2M": 0, "1G": 0} | counts)
        os = known.os.model_copy(update={"anonymous": sizes})
        machine = known.machine | {"cost": cost}
        changes = {"pages": pages, "cycles": cycles, "os": os, "machine": machine}
        made.append(known.model_copy(update=changes))
    answer = WHOLE.model_copy(update={"runs": made}).answer
    (decision,) = answer.decisions
    assert decision.effect == "depends"
    # 500 - 100 + 1000, and 500 - 100 + 10.
    assert decision.between == pytest.approx((1000 / 1400 - 1, 1000 / 410 - 1))
    assert "28.6 % slower where a hypervisor has to give" in answer.headline
    assert "143.9 % faster where memory was in use" in answer.headline
