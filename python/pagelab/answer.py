"""Answer of a comparison to a question: a decision for each machine, and its text.

`decision` decides, `verdict` writes the text; result.json keeps both as `answer`.
"""

from typing import Annotated, Literal

from pydantic import Field

from pagelab import units
from pagelab.counts import Model

Asked = Literal["page table", "page size", "page table or page size", "operating system", "nothing"]
Effect = Literal["helps", "hurts", "no difference", "depends", "unknown", "not asked"]


class Estimate(Model):
    """A figure, and half the width of its 95 % confidence interval: 0 of what was not sampled."""

    value: float
    half: Annotated[float, Field(ge=0)] = 0.0

    def __str__(self) -> str:
        """Its size as a percentage, with the digits of the table."""
        text = units.percent(abs(self.value))
        if not self.half:
            return text
        return f"{text.removesuffix(' %')} \N{PLUS-MINUS SIGN} {units.percent(self.half)}"


class Change(Model):
    """A part of the time under the baseline and under the best, both over the baseline's time."""

    part: str
    before: float
    after: float


class Decision(Model):
    """Verdict of the runs on a machine on changing from the baseline to the best of the others.

    `gain` is speed, as in the table; `cost` is the share of the baseline's time that free
    translation would save, `bound` the speed that it would gain, where a run says so.
    """

    machine: str
    asked: Asked
    effect: Effect
    baseline: str
    best: str | None
    """Label of the run that gains most of those that may be chosen; of operating systems, which
    nobody chooses for one program, of the run that differs most."""
    change: str | None
    """What is changed there: `2 MB pages`."""
    gain: Estimate | None
    between: tuple[float, float] | None
    """Least and most gain, by whether a hypervisor has to give memory first; where that matters."""
    parts: list[Change]
    """Parts of the time that change, those first that go the way of `effect`."""
    memory_bytes: int
    best_memory_bytes: int | None
    kernel: float
    """Share of the baseline's time in page faults, unmapping and zeroing."""
    cost: Estimate
    bound: Estimate | None


class Advice(Model):
    """Advice, and what to type for it, if that is all it takes."""

    words: str
    command: str | None = None

    def __str__(self) -> str:
        return self.words if self.command is None else f"{self.words}\n    {self.command}"


class Answer(Model):
    """The decisions, and what is said of them."""

    decisions: list[Decision]
    headline: str
    reason: str
    advice: list[Advice]
    caveats: list[str]

    @property
    def text(self) -> str:
        """All sentences; advice has lines of its own, in which commands are indented."""
        answer = " ".join(filter(None, [self.headline, self.reason]))
        caveats = [" ".join(self.caveats)] if self.caveats else []
        return "\n".join([answer, *map(str, self.advice), *caveats])

    def __str__(self) -> str:
        return self.text
