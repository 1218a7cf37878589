"""What is asked for on the command line: designs, page sizes."""

import pytest

from pagelab import design
from pagelab.cli import options
from pagelab.errors import UsageError


def asked(designs: str | None, sizes: str | None = None) -> list[tuple[str, str | None]]:
    chosen = design.chosen(options.designs(designs), options.page_sizes(sizes, thp=False))
    return [(one.label, one.pages) for one in chosen]


def test_page_sizes_multiply_designs_but_those_that_name_one() -> None:
    assert asked("radix,dpt:cpd=false,radix:pages=1g", "4K,2MB") == [
        ("radix", "4K"),
        ("radix", "2M"),
        ("dpt:cpd=false", "4K"),
        ("dpt:cpd=false", "2M"),
        ("radix", "1G"),
    ]
    assert asked("radix,radix:pages=64K") == [("radix", None), ("radix", "64K")]
    assert asked("radix,radix:pages=4K", "4K") == [("radix", "4K")]


def test_several_page_sizes_alone_are_asked_of_radix_and_the_bound() -> None:
    assert asked(None, "4K,2M") == [
        (design, size) for design in ("radix", "ideal") for size in ("4K", "2M")
    ]
    # One size is for every page table.
    assert {size for _, size in asked(None, "2M")} == {"2M"}
    assert len(asked(None, "2M")) == len(asked(None)) > 2


def test_thp_is_short_for_one_size() -> None:
    assert options.page_sizes(None, thp=True) == ["2M"]
    assert options.page_sizes(None, thp=False) is None
    with pytest.raises(UsageError, match="--pages 2M"):
        options.page_sizes("4K", thp=True)


@pytest.mark.parametrize(("designs", "sizes"), [("radix:pages=3M", None), (None, "4K,3M")])
def test_a_page_size_that_there_is_not_is_named_with_those_that_there_are(
    designs: str | None, sizes: str | None
) -> None:
    with pytest.raises(UsageError, match=r"unknown page size '3M'.*Valid: 4K, 16K.*2M, 1G"):
        asked(designs, sizes)
