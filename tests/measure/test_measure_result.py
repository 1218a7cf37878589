"""Results of the probe, read back: good ones, damaged ones, ones from the future."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelab.errors import PagelabError
from pagelab.measuring import result

RECORDED = Path(__file__).parent / "data" / "zen5-guest.json"


def test_a_recorded_result_is_read() -> None:
    measurement = result.load(RECORDED)
    assert measurement.environment.hypervisor == "KVM"
    found = measurement.stepped("tlb", "small")
    assert found is not None
    assert found.steps[0].nominal == 96


def test_a_directory_stands_for_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "measurement.json").write_bytes(RECORDED.read_bytes())
    assert result.load(tmp_path) == result.load(RECORDED)


@given(st.data())
def test_a_cut_result_names_the_file_and_the_place(data: st.DataObject) -> None:
    text = RECORDED.read_text(encoding="utf-8").rstrip()
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(PagelabError, match=r"cut\.json is no JSON .* at line 1, column \d+"):
        result.parse(cut, "cut.json")


def test_a_newer_format_asks_for_a_newer_pagelab() -> None:
    raw = json.loads(RECORDED.read_text(encoding="utf-8")) | {"version": 99}
    with pytest.raises(PagelabError, match=r"version 99 of the format.*update pagelab"):
        result.parse(json.dumps(raw), "new.json")


@pytest.mark.parametrize("missing", ["format", "noise", "parts", "environment"])
def test_a_missing_key_is_named(missing: str) -> None:
    raw = json.loads(RECORDED.read_text(encoding="utf-8"))
    del raw[missing]
    with pytest.raises(PagelabError, match=rf"no result of the probe: {missing}: "):
        result.parse(json.dumps(raw), "odd.json")


def test_a_list_is_no_result() -> None:
    with pytest.raises(PagelabError, match="no result of the probe"):
        result.parse("[1, 2]", "list.json")
