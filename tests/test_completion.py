"""What a shell offers, asked of bash with the script that `--show-completion` prints."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pagelab import _core

# A bash that has pressed TAB after these words.
PRESS_TAB = """
eval "$(_PAGELAB_COMPLETE=source_bash pagelab)"
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pagelab_completion pagelab "${{COMP_WORDS[COMP_CWORD]}}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def offered(*words: str) -> list[str]:
    beside = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB.format(words=shlex.join(["pagelab", *words]))],
        env=os.environ | {"PATH": f"{beside}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["comp"], ["compare"]),
        (["linux", "bu"], ["build"]),
        (["compare", "--des"], ["--designs"]),
        (["compare", "--machine", "sky"], ["skylake-sp"]),
        (["simulate", "--workload", "poi"], ["pointer-chase"]),
        # The last of a list; what is in it already is not offered again.
        (["compare", "-d", "radix,flattened,flattened+m"], ["radix,flattened,flattened+mosaic"]),
    ],
)
def test_names_are_completed(words: list[str], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_all_designs_are_offered() -> None:
    assert offered("simulate", "--design", "") == [name for name, _ in _core.designs()]
