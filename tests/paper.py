"""A made-up paper: one workload, one figure."""

from pathlib import Path

SYSTEM = """
title = "A paper"
machine = "dpt-paper"
sample = { windows = 2 }
[[workload]]
name = "random-updates"
label = "RND"
footprint_gib = 0.25
"""
FIGURE = """
title = "Figure 1"
shows = "Speed."
metric = "speed"
[[series]]
name = "radix"
design = "radix"
"""


def folder(path: Path, figure: str, system: str = SYSTEM) -> Path:
    (path / "paper.toml").write_text(system)
    (path / "fig1.toml").write_text(figure)
    return path
