"""Results on disk: whole or not there."""

import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelab.errors import PagelabError
from pagelab.experiment.case import Case, Failed, Result
from pagelab.experiment.store import Store

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
CASE = Case("simulate", "a case", {}, ["what it depends on"])


@settings(max_examples=30)
@given(st.dictionaries(st.text(), JSON))
def test_what_is_kept_comes_back(tmp_path_factory: pytest.TempPathFactory, data: dict) -> None:  # type: ignore[type-arg]
    store = Store(tmp_path_factory.mktemp("store"))
    store.put(CASE, Result(data, {"seconds": 1}))
    assert store.get(CASE.key) == Result(data, {"seconds": 1})
    store.put(CASE, Failed("no", {}))
    assert store.get(CASE.key) == Failed("no", {})


def test_a_file_that_was_cut_off_anywhere_is_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(CASE, Result({"a": [1, 2, 3]}, {}))
    [file] = tmp_path.glob("*/*.json.gz")
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert store.get(CASE.key) is None


def test_a_file_under_another_key_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(CASE, Result({}, {}))
    [file] = tmp_path.glob("*/*.json.gz")
    kept = json.loads(gzip.decompress(file.read_bytes()))
    file.write_bytes(gzip.compress(json.dumps(kept | {"key": "0" * 32}).encode()))
    assert store.get(CASE.key) is None


def test_everything_a_result_depends_on_is_in_the_key() -> None:
    keys = {
        Case(backend, "l", {}, depends).key
        for backend in ("simulate", "guest")
        for depends in ([1], [2], {"a": 1}, {"a": 1, "b": 2})
    }
    assert len(keys) == 8
    again = Case("guest", "other label", {}, {"b": 2, "a": 1})
    assert again.key == Case("guest", "l", {}, {"a": 1, "b": 2}).key


def test_what_a_killed_process_was_writing_goes_after_an_hour(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(CASE, Result({}, {}))
    [file] = tmp_path.glob("*/*.json.gz")
    old, young = (file.with_name(f".{name}.json.gz-1.part") for name in ("old", "young"))
    old.touch()
    young.touch()
    os.utime(old, (0, 0))
    assert Store(tmp_path).get(CASE.key) == Result({}, {})
    assert not old.exists()
    assert young.exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PagelabError, match="cannot write"):
        Store(tmp_path / "file")
