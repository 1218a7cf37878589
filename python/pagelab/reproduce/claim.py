"""Claims of papers, and what was found here: one type for every paper."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# There is nothing to take a share of where the paper sees no change.
NO_CHANGE = 0.01


class Claim(BaseModel):
    """A statement of the paper.

    Most are numbers: of a series in a row, or with `against` the ratio of two series there. `value`
    is the paper's; `near` says up to which share of it, or of its distance from 1 for a ratio, ours
    may be off. A bound is `below` or `above`. A conclusion (`concludes`) has no number: what was
    measured either agrees or does not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: str
    series: str = ""
    against: str | None = None
    row: str = "mean"
    value: float | None = None
    relation: Literal["equal", "below", "above", "concludes"] = "equal"
    near: float = Field(default=1 / 3, gt=0)

    @model_validator(mode="after")
    def _has_a_value(self) -> "Claim":
        if (self.value is None) != (self.relation == "concludes"):
            raise ValueError("a claim has a value, or relation = 'concludes' and none")
        return self


class Answer(BaseModel):
    """A claim beside what was found; `ours` is `None` when there is nothing to compare with it.

    `low` and `high` are the 95 % confidence interval of ours, where there is one. `relative` says
    that the numbers are ratios, so that their distances from 1 are compared: 1.10 against 1.126 is
    a gain of 0.10 against one of 0.126. `agrees` and `reason` are of a conclusion.
    """

    model_config = ConfigDict(frozen=True)

    claim: Claim
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    relative: bool = False
    agrees: bool | None = None
    reason: str = ""

    @property
    def off(self) -> float | None:
        """Our number's distance from the paper's, as a share of the paper's."""
        if self.ours is None or self.claim.value is None or self.claim.relation != "equal":
            return None
        base = 1.0 if self.relative else 0.0
        paper = self.claim.value - base
        return (self.ours - self.claim.value) / abs(paper) if paper else None

    @property
    def verdict(self) -> str:
        """In words: whether the claim holds, or how far ours is off."""
        match self.claim.relation:
            case "concludes":
                return {True: "agrees", False: "does not agree", None: "open"}[self.agrees]
            case "below" | "above":
                return self._bound(self.claim.relation)
        if self.ours is None or self.claim.value is None:
            return "not computed"
        if self.off is None:
            return "near" if abs(self.ours - self.claim.value) <= NO_CHANGE else "far"
        return "near" if abs(self.off) <= self.claim.near else "far"

    def _bound(self, side: str) -> str:
        if self.ours is None or self.claim.value is None:
            return "not computed"
        low = self.ours if self.low is None else self.low
        high = self.ours if self.high is None else self.high
        best, worst = (low, high) if side == "below" else (-high, -low)
        bound = self.claim.value if side == "below" else -self.claim.value
        if worst <= bound:
            return "holds"
        return "does not hold" if best > bound else "undecided"
