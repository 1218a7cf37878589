"""The probe's result: one JSON file, as crates/probe writes it."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pagelab.errors import PagelabError, cannot, fault

if TYPE_CHECKING:
    import polars
    import pyarrow

FORMAT_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Estimate(_Model):
    """A median with its 95 % interval."""

    median: float
    low: float
    high: float
    samples: int

    def relative_error(self) -> float:
        """Half the width of the interval, relative to the median."""
        return (self.high - self.low) / (2 * abs(self.median)) if self.median else float("inf")


class Curve(_Model):
    """Latency by number of places, ns; `None` where every round was lost."""

    x: list[int]
    ns: list[float | None]
    low: list[float | None]
    high: list[float | None]

    @property
    def points(self) -> list[tuple[int, float]]:
        """Places and latency where there is one."""
        found = zip(self.x, self.ns, strict=True)
        return [(x, ns) for x, ns in found if ns is not None]


class Plateau(_Model):
    """A stretch of a curve at one level."""

    first: int
    last: int
    level: float


class Shape(_Model):
    """A store that explains a step: its capacity, and how it is indexed and replaces."""

    capacity: int
    shape: str | dict[str, dict[str, int]]
    misfit: float

    @property
    def ways(self) -> int | None:
        """The ways of a set, where there are some."""
        if isinstance(self.shape, str):
            return None
        return next((of["ways"] for of in self.shape.values() if "ways" in of), None)

    @property
    def evicts_at_random(self) -> bool:
        """True if any entry of a set leaves, and not the oldest."""
        name = self.shape if isinstance(self.shape, str) else next(iter(self.shape), "")
        return name in ("random_replacement", "scattered_random")


class Fit(Shape):
    """The store that explains a step best, and the one that says most against it."""

    capacity_low: int
    capacity_high: int
    rival: Shape | None = None


class Step(_Model):
    """One step of a curve; `no_conclusion` says why, where no capacity is concluded."""

    before: int
    after: int
    low: float
    high: float
    confidence: float
    fit: Fit | None
    nominal: int | None
    no_conclusion: str | None


class Stepped(_Model):
    """A curve with what was found in it."""

    curve: Curve
    plateaus: list[Plateau]
    steps: list[Step]


class SharedLevel(_Model):
    """Last level by loads at random: its room in lines, and what others bring in.

    `others` are in 10^9 bytes a second; each has its 95 % interval.
    """

    lines: int
    lines_low: int
    lines_high: int
    others: float
    others_low: float
    others_high: float
    misfit: float
    no_conclusion: str | None
    # The figures explain the curves, however wide their intervals are.
    explains: bool = False


class Conditions(_Model):
    """Findings beside a program's runs, as far as that was looked at.

    Nanoseconds that a line of memory took; 10^9 bytes a second that one core read in order, and
    that it moved from and to memory where it wrote, too; nanoseconds a page of phases of its life,
    as `faults.per_page_ns` has them; and the last level.
    """

    memory_ns: Estimate | None = None
    reads: Estimate | None = None
    moves: Estimate | None = None
    life: dict[str, dict[str, Estimate]] = {}
    level: SharedLevel | None = None


class Noise(_Model):
    """Noise of the machine."""

    verdict: str
    spread: float
    drift: float
    lost: float


class Environment(_Model):
    """Circumstances of the measurement."""

    cpu: str
    architecture: str
    hypervisor: str | None
    kernel: str
    cpus: int
    memory: int
    load: float | None
    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    extensions: list[str] = []
    available: int | None = None
    free_blocks: list[int] = []
    # They are of movable pages alone.
    free_blocks_movable: bool = False
    # Bytes that may be held at one time.
    budget: int = 0
    settings: dict[str, str]


class NotDone(_Model):
    """A measurement that could not be made, and why."""

    part: str
    what: str
    why: str


class Measurement(_Model):
    """A whole result. The parts are kept as they are: `part` reads one."""

    format: Literal["pagelab-probe"]
    version: int
    probe: str
    started: int
    seed: int
    quick: bool
    allowed_tuning: bool
    environment: Environment
    noise: Noise
    seconds: dict[str, float]
    parts: dict[str, dict[str, Any]]
    not_done: list[NotDone]

    def to_arrow(self) -> "pyarrow.Table":
        """A row a figure: part, what, value as text, number (ns, or a count), how sure, claimed."""
        from pagelab import frames
        from pagelab.measuring.findings import findings

        return frames.arrow([asdict(row) for row in findings(self)])

    def to_polars(self) -> "polars.DataFrame":
        """As `to_arrow`, in polars. Raises PagelabError where polars is not installed."""
        from pagelab import frames

        return frames.polars_frame(self.to_arrow())

    def curves(self) -> "pyarrow.Table":
        """Every curve, a row a point: where it is in the result, x, and ns with its interval."""
        from pagelab import frames

        return frames.arrow(
            [
                {"curve": name, "x": x, "ns": ns, "low": low, "high": high}
                for name, curve in _curves(self.parts, "")
                for x, ns, low, high in zip(curve.x, curve.ns, curve.low, curve.high, strict=True)
            ]
        )

    def _repr_html_(self) -> str:
        from pagelab.measuring import page

        return page.fragment(self)

    def stepped(self, part: str, name: str) -> Stepped | None:
        """A curve of a part, if it was measured."""
        value = self.parts.get(part, {}).get(name)
        return None if value is None else Stepped.model_validate(value)

    def shared_level(self) -> SharedLevel | None:
        """The last level as loads at random find it, if that was measured."""
        level = (self.parts.get("caches", {}).get("at_random") or {}).get("level")
        return None if level is None else SharedLevel.model_validate(level)

    def flushed(self) -> Estimate | None:
        """Nanoseconds that a line takes which no cache has, if that was measured."""
        raw = self.parts.get("caches", {}).get("flushed_ns")
        return None if raw is None else Estimate.model_validate(raw)

    def reads(self) -> Estimate | None:
        """10^9 bytes a second that one core reads in order, if that was measured."""
        raw = (self.parts.get("memory", {}).get("bandwidth") or {}).get("one_core")
        return None if raw is None else Estimate.model_validate(raw)

    def in_use(self) -> "Measurement":
        """The same of a machine whose memory is in use all the time, so that no host has it."""
        parts = {name: part for name, part in self.parts.items() if name != "idle"}
        return self.model_copy(update={"parts": parts})

    def beside(self, found: Conditions) -> "Measurement":
        """The same, but as was found beside a program: what moves by the minute."""
        caches = dict(self.parts.get("caches", {}))
        memory = dict(self.parts.get("memory", {}))
        if found.memory_ns:
            caches["flushed_ns"] = found.memory_ns.model_dump()
        if found.level and (found.level.explains or not found.level.no_conclusion):
            caches["at_random"] = {
                **(caches.get("at_random") or {}),
                "level": found.level.model_dump(),
            }
        for key, rate in (("one_core", found.reads), ("one_core_moves", found.moves)):
            if rate:
                bandwidth = memory.get("bandwidth") or {}
                memory["bandwidth"] = {**bandwidth, key: rate.model_dump()}
        faults = dict(self.parts.get("faults", {}))
        if lives := faults.get("per_page_ns"):
            faults["per_page_ns"] = lives | {
                use: lives.get(use, {}) | {phase: ns.model_dump() for phase, ns in phases.items()}
                for use, phases in found.life.items()
            }
        changed = {"caches": caches, "memory": memory, "faults": faults}
        return self.model_copy(update={"parts": self.parts | changed})


def _curves(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Curve]]:
    """The curves in a part of a result, by where they are."""
    for key, item in value.items():
        if isinstance(item, dict) and item.keys() >= {"x", "ns", "low", "high"}:
            yield f"{prefix}{key}".removesuffix(".curve"), Curve.model_validate(item)
        elif isinstance(item, dict):
            yield from _curves(item, f"{prefix}{key}.")


def parse(text: str, name: str) -> Measurement:
    """Reads a result; raises PagelabError that says what is wrong with it."""
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise PagelabError(f"{name} is no JSON ({error.msg} at {where})") from error
    version = raw.get("version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise PagelabError(
            f"{name} has version {version} of the format, this pagelab reads {FORMAT_VERSION}: "
            "update pagelab"
        )
    try:
        return Measurement.model_validate(raw)
    except ValidationError as error:
        raise PagelabError(f"{name} is no result of the probe: {fault(error)}") from error


def load(path: Path) -> Measurement:
    """Reads a result from a file, or from measurement.json in a directory."""
    file = path / "measurement.json" if path.is_dir() else path
    try:
        with cannot("read", file):
            text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PagelabError(f"cannot read {file}: it is no text") from error
    return parse(text, str(file))
