"""A sample's totals are those of the whole program, as often as their intervals say."""

import random
from pathlib import Path

import pytest

import canned
import pagelab
from pagelab import Window, sampling
from pagelab.counts import SampleWindow
from pagelab.machines import Machine

PERIOD = 20


class _Program:
    """A made-up program: instructions, cycles under two designs and faults of each stretch.

    Its speed drifts, stretches differ in length, and the kernel's time is all in a few of them.
    """

    def __init__(self, seed: int) -> None:
        source = random.Random(seed)
        self.stretches = []
        for at in range(3000):
            instructions = source.randint(200, 1800)
            common = instructions * source.uniform(1, 2) * (1 + at / 3000)
            slow, fast = (int(common * source.gauss(factor, 0.1)) for factor in (1.3, 1.0))
            faults = 20_000 if source.random() < 0.02 else 0
            self.stretches.append((instructions, slow, fast, faults))

    def totals(self) -> tuple[int, int]:
        """Cycles under both designs; huge pages take a tenth of the faults."""
        return (
            sum(slow + faults for _, slow, _, faults in self.stretches),
            sum(fast + faults // 10 for _, _, fast, faults in self.stretches),
        )

    def sampled(self, start: int, *, fast: bool) -> sampling.Sample:
        """What is estimated from them."""
        return sampling.Sample(self.windows(start, fast=fast))

    def windows(self, start: int, *, fast: bool) -> list[SampleWindow]:
        """Every 20th stretch measured; instructions and faults behind it are known."""
        windows = []
        for at in range(start, len(self.stretches), PERIOD):
            instructions, slow, quick, faults = self.stretches[at]
            behind = self.stretches[at + 1 : at + PERIOD]
            cut = 10 if fast else 1
            gap = canned.gap(
                instructions=sum(stretch[0] for stretch in behind),
                faults=sum(stretch[3] // cut for stretch in behind),
            )
            cycles = (quick if fast else slow) + faults // cut
            kept = {"faults": faults // cut, "after": gap}
            raw = canned.window(instructions=instructions, accesses=1, cycles=cycles) | kept
            windows.append(SampleWindow.model_validate(raw))
        return windows


def test_speed_of_the_whole_is_in_the_interval_as_often_as_it_says() -> None:
    held = 0
    for seed in range(20):
        program = _Program(seed)
        slow, fast = program.totals()
        for start in range(PERIOD):
            base = program.sampled(start, fast=False)
            other = program.sampled(start, fast=True)
            value, half = sampling.relative(base, other)
            assert half < 0.05
            held += abs(value - slow / fast) <= half
    assert held >= 0.93 * 20 * PERIOD


def test_a_beginning_that_was_taken_whole_is_no_draw_of_the_sample() -> None:
    held = 0
    for seed in range(20):
        program = _Program(seed)
        # At first it is another program: to it the fast design is no use, and all takes longer.
        head = [(count, 9 * slow, 9 * slow, faults) for count, slow, _, faults in program.stretches]
        program.stretches[:1000] = head[:1000]
        slow, fast = program.totals()
        for start in range(PERIOD):
            samples = []
            for fast_ in (False, True):
                cut = 10 if fast_ else 1
                rest = program.windows(1000 + start, fast=fast_)
                taken, behind = program.stretches[:1000], program.stretches[1000 : 1000 + start]
                whole = canned.window(
                    instructions=sum(one[0] for one in taken),
                    accesses=1,
                    cycles=sum(one[1] + one[3] // cut for one in taken),
                )
                gap = canned.gap(
                    instructions=sum(one[0] for one in behind),
                    faults=sum(one[3] // cut for one in behind),
                )
                faults = sum(one[3] // cut for one in taken)
                raw = whole | {"faults": faults} | {"after": gap}
                samples.append(sampling.Sample([SampleWindow.model_validate(raw), *rest]))
            value, half = sampling.relative(*samples)
            assert half < 0.01
            assert 0.33 < samples[0].share < 0.4  # A third, and a twentieth of the rest.
            held += abs(value - slow / fast) <= half
    assert held >= 0.93 * 20 * PERIOD


def _torn(sample: list[SampleWindow], seed: int) -> list[SampleWindow]:
    """The same windows, each behind a few instructions of another thread, at any speed."""
    source = random.Random(seed)
    found = []
    for window in sample:
        instructions, cycles = source.randint(1, 3), source.randint(0, 30)
        few = canned.window(instructions=instructions, accesses=1, cycles=cycles)
        gap = canned.gap(instructions=source.randint(0, 200))
        found += [SampleWindow.model_validate(few | {"after": gap}), window]
    return found


def test_a_piece_in_which_threads_take_turns_is_one() -> None:
    held = 0
    for seed in range(20):
        program = _Program(seed)
        slow, fast = program.totals()
        for start in range(0, PERIOD, 4):
            base, other = (
                sampling.Sample(_torn(program.windows(start, fast=fast), seed))
                for fast in (False, True)
            )
            value, half = sampling.relative(base, other)
            assert half < 0.06
            held += abs(value - slow / fast) <= half
    assert held >= 0.9 * 20 * PERIOD / 4


def test_the_kernel_counts_once() -> None:
    program = _Program(1)
    faults = sum(stretch[3] for stretch in program.stretches)
    assert program.sampled(0, fast=False).in_kernel == faults
    before = sum(stretch[3] for stretch in program.stretches[:7])
    assert program.sampled(7, fast=False).in_kernel == faults - before


def test_a_window_stands_for_half_of_the_instructions_on_either_side() -> None:
    windows = [
        SampleWindow.model_validate(
            canned.window(instructions=100, accesses=1, cycles=100)
            | {"l2_tlb_misses": misses, "after": canned.gap(instructions=gap)}
        )
        for misses, gap in [(10, 900), (0, 200), (3, 400)]
    ]
    sample = sampling.Sample(windows)
    assert sample.instructions == 1800
    assert sample.total(sampling.of("l2_tlb_misses")) == pytest.approx(
        10 * 550 / 100 + 3 * 600 / 100
    )


def test_what_lies_behind_the_end_is_no_part_of_the_sample() -> None:
    windows = [
        SampleWindow.model_validate(
            canned.window(instructions=100, accesses=1, cycles=100)
            | {"after": canned.gap(instructions=gap, faults=7)}
        )
        for gap in (900, 900, 1_000_000)
    ]
    sample = sampling.Sample(windows)
    assert sample.instructions == 2100
    assert sample.in_kernel == 14


@pytest.mark.parametrize(("kib", "told"), [(256, True), (16384, False)])
def test_an_estimate_of_what_caches_hold_is_called_one(
    kib: int, told: bool, tmp_path: Path
) -> None:
    trace = tmp_path / "loads.csv"
    lines = (f"L,{address:x},8,0,0\n" for address in range(1 << 30, (1 << 30) + (2 << 20), 64))
    trace.write_text("kind,addr,size,gap,dep\n" + "".join(lines))
    machine = Machine("dpt-paper").set(f"caches.llc.kib={kib}", "caches.l2.kib=64")
    compared = pagelab.compare(
        trace, ["radix", "dpt"], machine=machine, window=Window(sample=(1000, 4000))
    )
    assert ("larger than the last level of cache" in compared.answer.text) == told
    whole = pagelab.compare(trace, ["radix", "dpt"], machine=machine)
    assert "larger than the last level of cache" not in whole.answer.text
