"""Manual pages and the bill of materials as they go into the wheel."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pagelab
from pagelab.cli import app

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man") / "man1"
    script = ROOT / "packaging" / "manpages.py"
    subprocess.run([sys.executable, script, folder], check=True, cwd=folder.parent)
    return folder


def test_every_option_of_the_help_is_in_the_manual(pages: Path) -> None:
    """What `--help` prints, by rich, against what mandoc makes of the page."""
    if shutil.which("mandoc") is None:
        pytest.skip("there is no mandoc")
    for page in sorted(pages.iterdir()):
        words = page.stem.split("-")
        if words[:2] == ["pagelab", "linux"]:
            words[2:] = ["-".join(words[2:])] if words[2:] else []
        # Wide enough that rich cuts no option short.
        told = CliRunner().invoke(app, [*words[1:], "--help"], env={"COLUMNS": "200"})
        assert told.exit_code == 0, told.output
        text = subprocess.run(
            ["mandoc", "-T", "ascii", page], check=True, capture_output=True, text=True
        ).stdout
        plain = re.sub(r".\x08", "", text)
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", told.stdout))
        assert {"--help"} <= options <= set(re.findall(r"--[a-z][a-z-]+", plain)), page.name


def test_the_manual_is_correct_man(pages: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("there is no mandoc")
    lint = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *sorted(pages.iterdir())],
        capture_output=True,
        text=True,
    ).stdout
    # Of which there is none: a page is as old as its version.
    assert [line for line in lint.splitlines() if "missing date" not in line] == []


def test_the_bill_lists_what_the_files_were_made_of() -> None:
    """Against the paths of source files that rustc leaves in what it compiles, for panics."""
    script = ROOT / "packaging" / "sbom.py"
    made = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    bill = json.loads(made.stdout)
    listed = {f"{part['name']}-{part['version']}" for part in bill["components"]}
    package = Path(pagelab.__file__).parent
    files = [*package.glob("*.so"), *(package / "plugins").iterdir()]
    found = {
        crate.decode()
        for file in files
        for crate in re.findall(rb"/registry/src/[^/]+/([\w.+-]+)/src/", file.read_bytes())
    }
    assert found
    assert found <= listed
    # CycloneDX: what is referred to is listed, and once.
    refs = [part["bom-ref"] for part in bill["components"]]
    assert len(refs) == len(set(refs))
    assert {ref for one in bill["dependencies"] for ref in one["dependsOn"]} <= set(refs)
