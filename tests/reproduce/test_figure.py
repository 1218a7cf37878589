"""The files of experiments/, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from pagelab import files
from pagelab.errors import PagelabError
from pagelab.linux import layout, suite
from pagelab.reproduce import paper
from pagelab.reproduce.guests import Guests
from pagelab.reproduce.kinds import KINDS
from pagelab.reproduce.nodes import Nodes
from pagelab.reproduce.ranges import Ranges
from paper import FIGURE, folder


def load(name: str, *figures: str) -> paper.Paper:
    return paper.load(files.experiments() / name, list(figures), KINDS)


def test_the_checkout_has_every_figure_the_paper_computes() -> None:
    dpt = load("dpt")
    guests = ["fig03-linux", "fig19", "fig19-empty", "fig20-linux", "fig21-linux"]
    assert sorted(dpt.figures) == sorted(
        [
            "ablation-sparse",
            *(f"fig{number:02}" for number in (3, 4, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23)),
            "four-cores",
            *guests,
            *(f"off-{call}" for call in ("fault", "fork", "mmap", "munmap")),
        ]
    )
    assert [name for name in guests if not isinstance(dpt.figures[name], Guests)] == []
    # Table II.
    assert [w.label for w in dpt.common.workload] == (
        ["BC", "BFS", "CC", "GC", "PR", "TC", "SSSP", "GEN", "RND", "XS", "DLRM"]
    )


def test_every_paper_can_be_read() -> None:
    folders = (Path(__file__).parents[2] / "experiments").iterdir()
    assert paper.names() == sorted(folder.name for folder in folders)
    for name in paper.names():
        assert load(name).figures


@pytest.mark.parametrize("name", ["foliomap", "fbmm", "dpt"])
def test_experiments_name_benchmarks_that_exist(name: str) -> None:
    where = layout.find()

    def jobs(entry: str) -> list[suite.Job]:
        return list(suite.load(where.linux / "bench", [entry]))

    for figure in load(name).figures.values():
        if isinstance(figure, Guests):
            for series in figure.series:
                found = [job for job in jobs(series.suite) if series.takes(job.append.split())]
                assert found
                for job in found:
                    source = (job.folder / job.entry.program).read_text()
                    assert figure.bench is None or f'"{figure.bench}"' in source
        if isinstance(figure, Nodes | Ranges):
            assert all(len(jobs(entry)) == 1 for entry in figure.suites.values())


def test_only_what_is_wanted_is_loaded() -> None:
    assert list(load("dpt", "fig13").figures) == ["fig13"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("metric", "meter"), "fig1.toml: metric: Field required"),
        (('"speed"', '"sped"'), "there is no metric sped"),
        (('design = "radix"', 'design = "radix"\nagainst = "dpt"'), "there is no series dpt"),
        (("[[series]]", "[[series]"), "fig1.toml"),
        (('title = "Figure 1"', 'title = "Figure 1"\nworkloads = ["X"]'), "has no workload X"),
        (('title = "Figure 1"', 'title = "Figure 1"\nkind = "guess"'), "did you mean 'guest'"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(
    change: tuple[str, str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(PagelabError, match=r"fig1\.toml") as raised:
        paper.load(folder(tmp_path, FIGURE.replace(*change)), [], KINDS)
    assert says in str(raised.value)


def test_an_unknown_figure_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(PagelabError, match="fig1"):
        paper.load(folder(tmp_path, FIGURE), ["fig2"], KINDS)
