"""Memory file systems on the command line, and the table of what they cost."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pagelab.errors import UsageError
from pagelab.linux import layout, manager, suite
from pagelab.linux.cli import app


def test_a_manager_is_a_name_and_mount_options() -> None:
    where = layout.find()
    assert manager.parse(where, "bwmfs:weights=3:2,huge") == ("bwmfs", "weights=3:2,huge")
    assert manager.parse(where, "contigmfs") == ("contigmfs", "")
    assert manager.parse(where, "basicmfs")[1].startswith("size=")


def test_each_module_is_in_the_table_and_has_tests() -> None:
    where = layout.find()
    folders = {path.parent.name for path in (where.linux / "modules").glob("*/Kbuild")}
    assert set(manager.names(where)) == folders - {manager.LIBRARY}
    tried = manager.mounts(where, {"pool": 64, "local": 8, "low": 1})
    assert {manager.parse(where, text)[0] for text in tried} == set(manager.names(where))
    assert "basicmfs:size=1M,swap=/run/swap" in tried
    assert not any("swap" in text for text in manager.mounts(where, {"pool": 64, "local": 8}))


def test_a_manager_says_how_many_nodes_it_needs() -> None:
    assert manager.nodes(layout.find(), "tieredmfs:local=1M,remote=2M") == 2
    assert manager.nodes(layout.find(), "contigmfs") == 1


def test_too_few_nodes_are_refused_before_the_guest_starts() -> None:
    result = CliRunner().invoke(
        app, ["run", "--nodes", "1", "--manager", "tieredmfs", "--", "true"]
    )
    assert isinstance(result.exception, UsageError)
    assert "needs --nodes 2" in str(result.exception)


def test_the_library_is_no_manager() -> None:
    with pytest.raises(UsageError, match="basicmfs"):
        manager.parse(layout.find(), "mfs")


def test_one_job_a_boot_and_manager(tmp_path: Path) -> None:
    folder = tmp_path / "feature"
    folder.mkdir()
    (folder / "suite.toml").write_text(
        '[[entry]]\nname = "a"\nprogram = "a.c"\nappend = ["fbmm=on"]\nmanager = ["", "bwmfs"]\n'
    )
    names = [job.name for job in suite.load(tmp_path, [])]
    assert names == ["feature/a [fbmm=on]", "feature/a [fbmm=on bwmfs]"]
