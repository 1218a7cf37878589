"""Settings are tried that the machine and the program have."""

from pathlib import Path

import pytest

from pagelab.advising import candidates
from pagelab.advising.resident import Look


@pytest.mark.parametrize(("nodes", "offered"), [("0\n", False), ("0-1\n", True), ("0,2\n", True)])
def test_memory_is_spread_where_there_are_nodes(
    nodes: str, offered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "has_memory").write_text(nodes)
    monkeypatch.setattr(candidates, "_NODES", tmp_path / "has_memory")
    found, _ = candidates.of(["true"], Look())
    assert ("interleaved" in [one.policy for one in found]) == offered


def test_tunables_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1:glibc.malloc.top_pad=1")
    monkeypatch.setattr("pagelab.advice.huge_pages", lambda: "always")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    found, _ = candidates.of(["true"], Look())
    wanted = next(one for one in found if "GLIBC_TUNABLES" in one.environment)
    assert wanted.environment["GLIBC_TUNABLES"].split(":") == [
        "glibc.malloc.arena_max=1",
        f"glibc.malloc.top_pad={64 << 20}",
    ]


def test_a_program_of_go_has_the_variables_of_its_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    monkeypatch.setenv("GODEBUG", "gctrace=1")
    other, program = tmp_path / "other", tmp_path / "program"
    other.write_bytes(b"\x7fELF Go buildinf:")
    # The mark of a program of Go (its package debug/buildinfo).
    program.write_bytes(b"\x7fELF" + bytes(5000) + b"\xff Go buildinf:\x08\x02")

    def settings(file: Path) -> list[dict[str, str]]:
        found, _ = candidates.of([str(file)], Look())
        return [one.environment for one in found if one.name.startswith("Go:")]

    assert settings(other) == settings(tmp_path) == settings(tmp_path / "none") == []
    assert settings(program) == [{"GOGC": "200"}, {"GODEBUG": "gctrace=1,madvdontneed=0"}]
    monkeypatch.setenv("GOGC", "50")
    assert len(settings(program)) == 1
