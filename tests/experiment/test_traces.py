"""Traces by address: known by content, fetched once a machine, checked."""

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from pagelab.errors import PagelabError
from pagelab.experiment import traces
from pagelab.experiment.backends import simulate
from pagelab.experiment.progress import silent
from pagelab.sources import Trace
from pagelab.window import Window

pytest.importorskip("fsspec")

CONTENT = b"0x1000 load\n" * 100_000
HASH = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAGELAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def source(path: str) -> dict[str, object]:
    return {"kind": "trace", "name": "x", "path": path, "window": {}}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket on a local server, with the trace in it."""
    server_of = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    client = boto3.client("s3")
    client.create_bucket(Bucket="traces")
    client.put_object(Bucket="traces", Key="a/x.csv", Body=CONTENT)
    yield "s3://traces/a/x.csv"
    server.stop()


def test_a_trace_in_s3(s3: str, cache: Path) -> None:
    named = traces.named_by_content(source(s3))
    assert named["sha256"] == HASH
    fetched = traces.fetched(named)
    assert Path(fetched["path"]).read_bytes() == CONTENT
    # What kind of trace it is, is told by its name.
    assert Path(fetched["path"]).name == "x.csv"
    assert Path(fetched["path"]).is_relative_to(cache)
    assert traces.content_of(named) == {"kind": "trace", "sha256": HASH, "window": {}}
    with pytest.raises(PagelabError, match="was changed"):
        traces.local(s3, "0" * 64)
    with pytest.raises(PagelabError, match="cannot"):
        traces.named_by_content(source(s3 + "x"))
    assert not list(cache.rglob("*.part"))


def test_processes_that_want_it_at_once_fetch_it_once(cache: Path) -> None:
    gets = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()

        def do_GET(self) -> None:
            gets.append(self.path)
            self.do_HEAD()
            self.wfile.write(CONTENT)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/x.csv"
    program = f"from pagelab.experiment import traces; print(traces.local({address!r}, {HASH!r}))"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    paths = {process.communicate()[0].strip() for process in running}
    server.shutdown()
    server.server_close()
    [path] = paths
    assert Path(path).read_bytes() == CONTENT
    assert gets == ["/x.csv"]


class Served(BaseHTTPRequestHandler):
    """Content at any address, and what the server says of it."""

    content = CONTENT
    marks: ClassVar[dict[str, str]] = {}
    gets: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        """What there is."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        for name, mark in self.marks.items():
            self.send_header(name, mark)
        self.end_headers()

    def do_GET(self) -> None:
        """And itself."""
        self.gets.append(self.path)
        self.do_HEAD()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def served() -> Iterator[str]:
    """A server's address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Served.gets.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("marks", [{"ETag": '"%d"'}, {"Last-Modified": "%d"}, {}])
def test_what_is_replaced_at_an_address_is_another_trace(
    served: str, marks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(version: int) -> str:
        monkeypatch.setattr(Served, "content", CONTENT.replace(b"1", b"%d" % version))
        monkeypatch.setattr(Served, "marks", {k: v % version for k, v in marks.items()})
        # Each as a command of its own.
        traces._hash_at.cache_clear()
        return str(traces.named_by_content(source(f"{served}/x.csv"))["sha256"])

    assert named(1) == HASH
    assert named(1) == HASH
    # Where nothing is said of it, it is looked at again.
    assert len(Served.gets) == (1 if marks else 2)
    other = hashlib.sha256(CONTENT.replace(b"1", b"2")).hexdigest()
    assert named(2) == other
    assert named(1) == HASH


@pytest.mark.parametrize("end", ["x.csv?signature=" + "5e" * 200, "x/", "y" * 300 + ".csv"])
def test_addresses_as_they_are(served: str, end: str) -> None:
    named = traces.named_by_content(source(f"{served}/{end}"))
    assert Path(traces.fetched(named)["path"]).read_bytes() == CONTENT


def test_the_layout_that_a_name_asks_for_is_part_of_the_content(
    tmp_path: Path, served: str
) -> None:
    """ChampSim has two, and instructions that could be of either."""
    record = (0x400000).to_bytes(8, "little") + bytes(8) + (1 << 20).to_bytes(8, "little")
    content = b"".join(
        record[:16] if at % 64 == 0 or at % 96 == 0 else record[16:] + record[16:]
        for at in range(0, 192 * 8, 16)
    )
    link = tmp_path / "cloudsuite.champsim"
    plain = tmp_path / "x.champsim"
    folder = tmp_path / "CloudSuite"
    folder.mkdir()
    for file in (plain, folder / "x.champsim"):
        file.write_bytes(content)
    link.symlink_to(plain)
    cases = [
        simulate.case("a case", "radix", "dpt-paper", [], Trace(file).describe(Window()))
        for file in (plain, link, folder / "x.champsim")
    ]
    found = [simulate.run(case.task, silent)["instructions"] for case in cases]
    assert found[0] != found[1] == found[2]
    assert cases[0].key != cases[1].key == cases[2].key
    named = traces.named_by_content(source(f"{served}/cloudsuite/x.csv"))
    assert "cloudsuite" in Path(traces.fetched(named)["path"]).name


def test_a_file_that_is_not_the_one_that_was_planned(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(CONTENT)
    named = traces.named_by_content(source(str(file)))
    assert traces.fetched(named)["path"] == str(file)
    file.write_bytes(b"other")
    with pytest.raises(PagelabError, match="was changed"):
        traces.fetched(named)
    file.unlink()
    with pytest.raises(PagelabError, match="put it on a shared file system"):
        traces.fetched(named)


def test_programs_at_once_each_have_their_trace(tmp_path: Path) -> None:
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for number, file in enumerate(files):
        file.write_text(str(number))
    programs = [source(str(file)) for file in files]
    named = traces.named_by_content({"kind": "programs", "name": "a+b", "programs": programs})
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert [program["sha256"] for program in named["programs"]] == hashes


def test_what_a_killed_process_had_fetched_goes(tmp_path: Path, cache: Path) -> None:
    folder = traces.cache_folder()
    assert folder.is_relative_to(cache)
    folder.mkdir(parents=True)
    left, held, new = (folder / f"{name}.part" for name in ("left", "held", "new"))
    for part in (left, held, new):
        part.write_bytes(b"half")
    for part in (left, held):
        os.utime(part, (0, 0))
    (tmp_path / "x.csv").write_bytes(CONTENT)
    with held.open("rb") as holding:
        fcntl.flock(holding, fcntl.LOCK_EX)
        traces.named_by_content(source(f"file://{tmp_path / 'x.csv'}"))
    assert {*folder.glob("*.part")} == {held, new}
