"""The preset of this processor's kind, by what /proc/cpuinfo says of it; nothing is measured."""

from dataclasses import dataclass
from pathlib import Path

from pagelab.measuring import cores

# Presets of the cores that are known, each a processor with such a core.
_PRESETS = {
    "Skylake": "skylake-sp",
    "Ice Lake": "ice-lake-sp",
    "Golden Cove": "sapphire-rapids",
    "Zen 2": "zen2",
    "Zen 3": "zen3",
    "Zen 4": "zen4",
    "Zen 5": "zen5",
}
# Golden Cove cores of desktops and laptops: Alder Lake and Raptor Lake (SDM volume 4, table 2-1).
_DESKTOP_MODELS = (151, 154, 183, 186)
# Presets for Intel's unknown processors: by instructions that came with a core, latest first.
_INTELS_BY_FLAG = (
    ("amx_tile", "sapphire-rapids"),
    ("avx_vnni", "golden-cove"),
    ("avx512_vbmi2", "ice-lake-sp"),
)


@dataclass(frozen=True)
class Processor:
    """Identity of a processor, by the names of `result.Environment`."""

    name: str = "unknown"
    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    extensions: tuple[str, ...] = ()

    @property
    def is_virtual(self) -> bool:
        """True in a virtual machine whose processor says so: cpuid(4)'s bit 31 of leaf 1."""
        return "hypervisor" in self.extensions


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> Processor:
    """The first processor of this machine."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Processor()
    first = text.partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}

    def number(key: str) -> int | None:
        return int(facts[key]) if facts.get(key, "").isdecimal() else None

    return Processor(
        facts.get("model name", "unknown"),
        facts.get("vendor_id"),
        number("cpu family"),
        number("model"),
        tuple(facts.get("flags", "").split()),
    )


def preset(of: Processor) -> tuple[str, bool]:
    """The preset of a processor, and whether its core is a known one: else the preset is near."""
    core = cores.documented(of)
    if core is None:
        return _nearest(of), False
    if core.name == "Golden Cove" and of.family == 6 and of.model in _DESKTOP_MODELS:
        return "golden-cove", True
    return _PRESETS[core.name], True


def _nearest(of: Processor) -> str:
    if of.vendor in ("AuthenticAMD", "HygonGenuine"):
        # Families go up with time: 17h was Zen to Zen 2, 1Ah Zen 5.
        family = of.family or 0
        return "zen2" if family < 0x19 else "zen3" if family == 0x19 else "zen5"
    with_flag = (name for flag, name in _INTELS_BY_FLAG if flag in of.extensions)
    return next(with_flag, "skylake-sp")


def describe() -> tuple[str, str]:
    """The preset of this machine's processor, and in words why it is that."""
    here = processor()
    name, known = preset(here)
    kind = "of this processor's kind" if known else "nearest to this processor, which is unknown"
    return name, (
        f"simulating {name}, the preset {kind} ({here.name}); -m here measures this machine"
    )
