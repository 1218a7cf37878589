"""The files of experiments/, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.reproduce import figure
from paper import FIGURE, folder


def test_the_checkout_has_every_figure_the_paper_computes() -> None:
    paper = figure.load(figure.experiments() / "dpt", [])
    assert list(paper.figures) == [
        f"fig{number:02}" for number in (3, 4, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23)
    ]
    # Table II.
    assert [w.label for w in paper.system.workload] == (
        ["BC", "BFS", "CC", "GC", "PR", "TC", "SSSP", "GEN", "RND", "XS", "DLRM"]
    )


def test_only_what_is_wanted_is_loaded() -> None:
    assert list(figure.load(figure.experiments() / "dpt", ["fig13"]).figures) == ["fig13"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("metric", "meter"), "fig1.toml: metric: Field required"),
        (('"speed"', '"sped"'), "there is no metric sped"),
        (('design = "radix"', 'design = "radix"\nagainst = "dpt"'), "there is no series dpt"),
        (("[[series]]", "[[series]"), "fig1.toml"),
        (('title = "Figure 1"', 'title = "Figure 1"\nworkloads = ["X"]'), "has no workload X"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(
    change: tuple[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(PagelabError, match=r"fig1\.toml") as raised:
        figure.load(folder(tmp_path, FIGURE.replace(*change)), [])
    assert says in str(raised.value)


def test_an_unknown_figure_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(PagelabError, match="fig1"):
        figure.load(folder(tmp_path, FIGURE), ["fig2"])
