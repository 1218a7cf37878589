"""The preset of a processor's kind, by excerpts of /proc/cpuinfo of machines that there are."""

from pathlib import Path

import pytest

from pagelab import _core
from pagelab.measuring import cores, kind


def cpuinfo(vendor: str, family: int, model: int, flags: str) -> str:
    processor = (
        f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: Some CPU @ 2 GHz\nflags\t\t: fpu {flags}\n"
    )
    return f"processor\t: 0\n{processor}\nprocessor\t: 1\n{processor}\n"


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "preset", "known"),
    [
        # EPYC 9004 (Genoa), 7003 (Milan), 7002 (Rome), 9005 (Turin); Ryzen 7950X, 5950X.
        ("AuthenticAMD", 25, 17, "avx512f", "zen4", True),
        ("AuthenticAMD", 25, 1, "avx2", "zen3", True),
        ("AuthenticAMD", 23, 49, "avx2", "zen2", True),
        ("AuthenticAMD", 26, 2, "avx512f", "zen5", True),
        ("AuthenticAMD", 25, 97, "avx512f", "zen4", True),
        ("AuthenticAMD", 25, 33, "avx2", "zen3", True),
        # Xeon Gold 6148, Platinum 8380, 8480; Core i7-12700K, i9-13900K, i7-6700.
        ("GenuineIntel", 6, 85, "avx512f", "skylake-sp", True),
        ("GenuineIntel", 6, 106, "avx512_vbmi2", "ice-lake-sp", True),
        ("GenuineIntel", 6, 143, "amx_tile", "sapphire-rapids", True),
        ("GenuineIntel", 6, 151, "avx_vnni", "golden-cove", True),
        ("GenuineIntel", 6, 183, "avx_vnni", "golden-cove", True),
        ("GenuineIntel", 6, 94, "avx2", "skylake-sp", True),
        # Zen 1, Haswell, Arrow Lake, and what is none of them.
        ("AuthenticAMD", 23, 1, "avx2", "zen2", False),
        ("GenuineIntel", 6, 63, "avx2", "skylake-sp", False),
        ("GenuineIntel", 6, 198, "avx_vnni", "golden-cove", False),
        ("CentaurHauls", 7, 59, "avx2", "skylake-sp", False),
    ],
)
def test_a_processor_has_the_preset_of_its_kind(
    vendor: str, family: int, model: int, flags: str, preset: str, known: bool, tmp_path: Path
) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(cpuinfo(vendor, family, model, flags))
    found = kind.processor(file)
    assert (found.name, found.extensions) == ("Some CPU @ 2 GHz", ("fpu", *flags.split()))
    assert kind.preset(found) == (preset, known)


def test_what_is_no_cpuinfo_has_a_preset_too(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    for file in (tmp_path / "none", tmp_path / "empty"):
        name, known = kind.preset(kind.processor(file))
        assert not known
        assert name in dict(_core.machines())


def test_each_known_core_has_a_preset() -> None:
    known = [*cores._INTEL.values(), *(core for _, _, core in cores._AMD)]
    presets = dict(_core.machines())
    assert all(kind._PRESETS[core.name] in presets for core in known)
