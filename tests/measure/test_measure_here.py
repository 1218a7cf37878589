"""The preset of this machine is measured once and kept as long as it holds."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pagelab import _core
from pagelab.cli import options
from pagelab.errors import PagelabError, UsageError
from pagelab.measuring import here, kind, probe
from pagelab.measuring.result import Measurement, load

WHOLE = Path(__file__).parent / "data" / "zen5-guest.json"


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own, and a probe that needs no time; the parts that it was asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[str] = []

    def run(part: str, say: probe.Say, **_: Any) -> Measurement:
        asked.append(part)
        measurement = load(WHOLE)
        environment = measurement.environment.model_copy(
            update={"cpu": kind.processor().name, "kernel": f"{os.uname().release} #1"}
        )
        return measurement.model_copy(update={"environment": environment})

    monkeypatch.setattr(probe, "run", run)
    return asked


def test_it_is_measured_on_first_use_and_kept(measured: list[str], tmp_path: Path) -> None:
    said: list[str] = []
    first = here.preset(said.append)
    assert measured == ["all"]
    assert "minutes" in said[0]
    assert str(tmp_path) in said[0]
    machine = json.loads(_core.machine(str(first), []))
    assert machine["name"] == "here"
    assert here.preset(said.append) == first
    assert measured == ["all"]
    assert "as measured on" in said[-2]
    # It was measured in a guest.
    assert "nested-radix" in said[-1]
    assert "measured on" in here.description()
    # Nothing else is left behind.
    assert sorted(path.name for path in first.parent.iterdir()) == ["here.json", "here.toml"]


@pytest.mark.parametrize(("key", "word"), [("cpu", "CPU"), ("kernel", "kernel")])
def test_another_cpu_or_kernel_is_measured_again(key: str, word: str, measured: list[str]) -> None:
    here.preset(lambda _: None)
    file = here.measurement_file()
    kept = json.loads(file.read_text())
    kept["environment"][key] = "another"
    file.write_text(json.dumps(kept))
    assert "first use" in here.description()
    said: list[str] = []
    here.preset(said.append)
    assert measured == ["all", "all"]
    assert f"whose {word} is another" in said[0]


def test_what_cannot_be_read_is_measured_again(measured: list[str]) -> None:
    here.preset(lambda _: None)
    here.measurement_file().write_text("{")
    here.preset(lambda _: None)
    assert measured == ["all", "all"]


def test_a_measurement_without_a_preset_is_not_kept(measured: list[str]) -> None:
    whole = probe.run("all", lambda _: None)
    with pytest.raises(PagelabError, match="needs the parts"):
        here.keep(whole.model_copy(update={"parts": {}}))
    assert not here.measurement_file().exists()


def test_a_name_that_is_wrong_is_found_before_anything_is_measured(measured: list[str]) -> None:
    with pytest.raises(UsageError, match="dpt-papr"):
        options.machines("here,dpt-papr", None)
    assert measured == []
    found = options.machines("here,dpt-paper", None)
    assert [machine.base for machine in found] == ["here", "dpt-paper"]
    assert measured == []
    assert found[0].name == "here"
    assert measured == ["all"]
