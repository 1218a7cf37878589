"""The functions for designs, machines and workloads are those that the compiled part has."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from pagelab import _core, designs, machines, tlbs, workloads
from processes import PATIENCE

SCRIPTS = Path(__file__).parents[1] / "scripts"


def test_the_files_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "generate-api.py", "--check"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


def test_there_is_a_function_for_every_part_of_every_design() -> None:
    for design in designs.ALL:
        table, _, tlb = design.name.partition("+")
        made = getattr(designs, table.replace("-", "_"))()
        assert (made.with_tlb(getattr(tlbs, tlb)()) if tlb else made) == design
    assert [design.name for design in designs.ALL] == [name for name, _ in _core.designs()]
    assert {machine.base for machine in machines.ALL} == {name for name, _ in _core.machines()}
    assert [make().name for make in workloads.ALL] == [name for name, _ in _core.workloads()]


OF_DESIGNS = {table for name, _ in _core.designs() for table in _core.design(name)[3]}


@pytest.mark.parametrize("machine", machines.ALL, ids=str)
def test_every_key_of_a_machine_can_be_given(machine: machines.Machine) -> None:
    tables = {key for key, value in machine.config.items() if isinstance(value, dict)}
    for table, keys in machine.config.items():
        if table in OF_DESIGNS:
            assert not hasattr(machine, table)
            continue
        method = getattr(machine, table if table in tables else "general")
        named = inspect.signature(method).parameters
        assert set(keys if table in tables else [table]) <= set(named)


@pytest.mark.parametrize("machine", machines.ALL, ids=str)
def test_every_key_of_a_design_can_be_given_with_it(machine: machines.Machine) -> None:
    for name, _ in _core.designs():
        table, _, tlb = name.partition("+")
        named = {*inspect.signature(getattr(designs, table.replace("-", "_"))).parameters}
        if tlb:
            named |= {*inspect.signature(getattr(tlbs, tlb)).parameters}
        for of in _core.design(name)[3]:
            for key in machine.config.get(of, {}):
                assert {key, f"{of}_{key}"} & named, (name, of, key)


def test_every_parameter_of_a_workload_can_be_given() -> None:
    for make in workloads.ALL:
        known = {row[0] for row in _core.workload_parameters(make().name)}
        own = set(inspect.signature(make).parameters) - {"common"}
        assert own | workloads.Common.__annotations__.keys() == known
        assert make(seed=7).parameters["seed"] == "7"
