"""A built kernel as an archive: what goes in comes out, and nothing else gets in."""

import hashlib
import http.client
import io
import json
import lzma
import os
import resource
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import artefact, build
from pagelab.linux.layout import Layout

IMAGE = "arch/x86/boot/bzImage"
GOOD = {IMAGE: b"kernel", artefact.MARK: b'{"sources": ""}', ".config": b"CONFIG_FBMM=y\n"}
# A kernel whose script installs a header and a link to it.
_MAKEFILE = """\
run-command:
	@mkdir -p $(lastword $(KBUILD_RUN_COMMAND))/include
	@echo header > $(lastword $(KBUILD_RUN_COMMAND))/include/a.h
	@ln -s a.h $(lastword $(KBUILD_RUN_COMMAND))/include/b.h
"""


def _layout(root: Path, builds: str) -> Layout:
    where = Layout(root, builds=root / builds)
    where.patches.mkdir(parents=True, exist_ok=True)
    where.source.mkdir(parents=True, exist_ok=True)
    (where.linux / "config").mkdir(exist_ok=True)
    (where.linux / "config" / "base.config").write_text("CONFIG_FBMM=y\n")
    where.work.mkdir(parents=True, exist_ok=True)
    return where


@pytest.fixture
def there(tmp_path: Path) -> Layout:
    """A new machine: the same pagelab, and nothing built."""
    return _layout(tmp_path, "there")


def _archive(
    path: Path, files: dict[str, bytes], *, special: Callable[[tarfile.TarInfo], None] | None = None
) -> str:
    """Files in an archive; `special` makes something else of one more member."""
    with tarfile.open(path, "w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if special is not None:
            member = tarfile.TarInfo("special")
            special(member)
            archive.addfile(member)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _link(kind: bytes, to: str) -> Callable[[tarfile.TarInfo], None]:
    def special(member: tarfile.TarInfo) -> None:
        member.type, member.linkname = kind, to

    return special


def test_what_was_packed_is_unpacked(tmp_path: Path, there: Layout) -> None:
    here = _layout(tmp_path, "here")
    here.tree.mkdir()
    (here.tree / "Makefile").write_text(_MAKEFILE)
    here.image().parent.mkdir(parents=True)
    here.image().write_bytes(b"kernel")
    (here.out() / ".config").write_text("CONFIG_FBMM=y\n")
    packed = tmp_path / "kernel.tar.xz"
    for made_from in (None, "older patches"):
        if made_from:
            artefact.note_sources(here, made_from)
        with pytest.raises(PagelabError, match="built from other patches"):
            artefact.pack(here, packed)
    artefact.note_sources(here, artefact.sources(here))
    digest = artefact.pack(here, packed)
    first = packed.read_bytes()
    assert (tmp_path / "kernel.tar.xz.sha256").read_text() == f"{digest}  kernel.tar.xz\n"
    assert artefact.pack(here, packed) == digest
    assert packed.read_bytes() == first

    said: list[str] = []
    for origin in (str(packed), packed.as_uri()):  # and over the one that is there
        image = artefact.unpack(there, origin, None, said.append)
        assert image.read_bytes() == b"kernel"
        assert (there.out() / "include" / "b.h").read_text() == "header\n"
        assert not (there.out() / "include" / "b.h").is_symlink()
    assert not any("other patches" in line for line in said)
    (there.patches / "0001-a.patch").write_text("newer")
    artefact.unpack(there, str(packed), digest.upper(), said.append)
    assert any("other patches" in line for line in said)
    assert {path.name for path in there.work.iterdir()} == {"lock", "out"}


@pytest.mark.parametrize("given", [True, False], ids=["told", "beside"])
def test_another_archive_than_was_asked_for(tmp_path: Path, there: Layout, given: bool) -> None:
    packed = tmp_path / "kernel.tar.xz"
    _archive(packed, GOOD)
    other = hashlib.sha256(b"another").hexdigest()
    (tmp_path / "kernel.tar.xz.sha256").write_text(f"{other}  kernel.tar.xz\n")
    with pytest.raises(PagelabError, match="has the SHA-256"):
        artefact.unpack(there, str(packed), other if given else None, print)
    assert not there.out().exists()


@pytest.mark.parametrize("name", ["../out-vm/x", "/etc/x", "a/../../../x", "."])
def test_a_file_outside(tmp_path: Path, there: Layout, name: str) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, {**GOOD, name: b"bad"})
    with pytest.raises(PagelabError, match="outside of its folder"):
        artefact.unpack(there, str(packed), digest, print)
    assert {path.name for path in there.work.iterdir()} == {"lock"}


@pytest.mark.parametrize(
    ("kind", "to"),
    [
        (tarfile.SYMTYPE, "/etc"),
        (tarfile.SYMTYPE, "../.."),
        (tarfile.LNKTYPE, "/etc/passwd"),
        (tarfile.FIFOTYPE, ""),
        (tarfile.CHRTYPE, ""),
    ],
)
def test_links_and_devices(tmp_path: Path, there: Layout, kind: bytes, to: str) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, GOOD, special=_link(kind, to))
    with pytest.raises(PagelabError, match="neither a file nor a folder"):
        artefact.unpack(there, str(packed), digest, print)
    assert not there.out().exists()


def test_one_name_twice(tmp_path: Path, there: Layout) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, {**GOOD, f"./{IMAGE}": b"another"})
    with pytest.raises(PagelabError, match="File exists"):
        artefact.unpack(there, str(packed), digest, print)


def test_sizes_are_bounded(tmp_path: Path, there: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, {**GOOD, "zeros": bytes(4 << 20)})
    monkeypatch.setattr(artefact, "MOST_UNPACKED", 1 << 20)
    with pytest.raises(PagelabError, match="unpacks to more than 1 MB"):
        artefact.unpack(there, str(packed), digest, print)
    # A header that says it is long, rather than a file
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 4 << 20
    packed.write_bytes(lzma.compress(header.tobuf() + b"9" * (4 << 20)))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    with pytest.raises(PagelabError, match="unpacks to more than 1 MB"):
        artefact.unpack(there, str(packed), digest, print)
    monkeypatch.setattr(artefact, "MOST_PACKED", 10)
    with pytest.raises(PagelabError, match="has more than"):
        artefact.unpack(there, str(packed), digest, print)
    assert not there.out().exists()


def test_what_is_no_archive_of_ours(tmp_path: Path, there: Layout) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, {"README": b"hello"})
    with pytest.raises(PagelabError, match="is not an archive of"):
        artefact.unpack(there, str(packed), digest, print)
    packed.write_bytes(b"hello")
    with pytest.raises(PagelabError, match="cannot be unpacked"):
        artefact.unpack(there, str(packed), hashlib.sha256(b"hello").hexdigest(), print)


@pytest.mark.parametrize("mark", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_mark_that_does_not_say_what_the_kernel_is(
    tmp_path: Path, there: Layout, mark: bytes
) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, {**GOOD, artefact.MARK: mark})
    with pytest.raises(PagelabError, match="does not say what its kernel was made from"):
        artefact.unpack(there, str(packed), digest, print)
    assert not there.out().exists()


def test_headers_of_headers(tmp_path: Path, there: Layout) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 512
    record = b"12 path=abc\n".ljust(512, b"\0")
    packed = tmp_path / "kernel.tar.xz"
    packed.write_bytes(lzma.compress((header.tobuf() + record) * 5000))
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    with pytest.raises(PagelabError, match="cannot be unpacked"):
        artefact.unpack(there, str(packed), digest, print)


def test_a_kernel_that_was_built_meanwhile_stays(
    tmp_path: Path, there: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "kernel.tar.xz"
    digest = _archive(packed, GOOD)

    @contextmanager
    def waits_for_a_build(folder: Path) -> Iterator[None]:
        there.image().parent.mkdir(parents=True)
        there.image().write_bytes(b"built")
        yield

    monkeypatch.setattr(artefact, "only_one", waits_for_a_build)
    with pytest.raises(PagelabError, match="a kernel was built in"):
        artefact.unpack(there, str(packed), digest, print)
    assert there.image().read_bytes() == b"built"


class _Connection(io.BytesIO):
    """What a server has sent before it hung up."""

    def makefile(self, mode: str) -> io.BytesIO:
        return self


@pytest.mark.parametrize("given", [True, False], ids=["archive", "hash"])
def test_a_connection_that_ends_early(
    there: Layout, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    def answer(_: str) -> http.client.HTTPResponse:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        response = http.client.HTTPResponse(_Connection(head + b"100\r\nhalf"))  # type: ignore[arg-type]
        response.begin()
        return response

    monkeypatch.setattr(artefact, "_open", answer)
    with pytest.raises(PagelabError, match="cannot be read"):
        artefact.unpack(
            there, "https://example.invalid/k.tar.xz", "0" * 64 if given else None, print
        )
    assert not there.out().exists()


@pytest.mark.parametrize("random", [True, False], ids=["packed", "unpacked"])
def test_no_room(tmp_path: Path, there: Layout, random: bool) -> None:
    packed = tmp_path / "kernel.tar.xz"
    content = os.urandom(1 << 20) if random else bytes(1 << 20)
    digest = _archive(packed, {**GOOD, "large": content})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, limits[1]))
    try:
        with pytest.raises(PagelabError, match="kept" if random else "unpacked"):
            artefact.unpack(there, str(packed), digest, print)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name for path in there.work.iterdir()} == {"lock"}


def test_what_is_refused_before_anything_is_fetched(tmp_path: Path, there: Layout) -> None:
    packed = str(tmp_path / "kernel.tar.xz")
    with pytest.raises(UsageError, match="64 hexadecimal"):
        artefact.unpack(there, packed, "abc", print)
    with pytest.raises(UsageError, match="only https and file"):
        artefact.unpack(there, "http://example.invalid/k.tar.xz", None, print)
    with pytest.raises(PagelabError, match="https://"):
        artefact.unpack(there, "https://a b:x/k.tar.xz", None, print)
    with pytest.raises(PagelabError, match="No such file"):
        artefact.unpack(there, packed, None, print)
    there.out().mkdir()
    with pytest.raises(PagelabError, match="a kernel was built in"):
        artefact.unpack(there, packed, None, print)


def test_a_build_takes_the_place_of_what_was_fetched(there: Layout) -> None:
    there.out().mkdir()
    (there.out() / artefact.MARK).write_text(json.dumps({"sources": ""}))
    with pytest.raises(PagelabError):  # there is no source to build
        build.configure(there, ())
    assert not (there.out() / artefact.MARK).exists()
