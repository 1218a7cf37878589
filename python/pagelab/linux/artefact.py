"""A built kernel as one archive, for those who write modules for it and do not build it.

It has the image, its configuration and what modules are built against: `pack` makes it from a
build, `unpack` puts it where a build would be. The guest's other files come with pagelab.
"""

import hashlib
import http.client
import io
import json
import lzma
import re
import shutil
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO
from urllib.parse import urlsplit

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import build
from pagelab.linux.layout import Layout
from pagelab.linux.lock import only_one

# Limits of the archive, and of what is in it: a kernel's are 15 and 90 MB.
MOST_PACKED = 256 << 20
MOST_UNPACKED = 2 << 30
_SUM = re.compile(r"[0-9a-fA-F]{64}")
_CHUNK = 1 << 20
# A build directory that has it was unpacked here. What the kernel was made from is in it.
MARK = build.PREBUILT
# Sources from which a kernel that was built here was made.
_MADE_FROM = ".pagelab-sources"
_IMAGE = "arch/x86/boot/bzImage"


def pack(layout: Layout, target: Path) -> str:
    """Write the plain kernel to an archive, and its SHA-256 beside it; return that."""
    image = layout.image()
    if not image.exists() or (layout.out() / MARK).exists():
        raise PagelabError(f"no kernel was built in {layout.out()}: run `pagelab linux build`")
    target.parent.mkdir(parents=True, exist_ok=True)
    with only_one(layout.work), tempfile.TemporaryDirectory(dir=layout.work) as work:
        made_from = layout.out() / _MADE_FROM
        if not made_from.exists() or made_from.read_text() != sources(layout):
            raise PagelabError(
                f"the kernel in {layout.out()} was built from other patches than {layout.linux} "
                "has: run `pagelab linux build`"
            )
        folder = Path(work) / "out"
        build.install_for_modules(layout, folder)
        (folder / _IMAGE).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(image, folder / _IMAGE)
        shutil.copyfile(layout.out() / ".config", folder / ".config")
        (folder / MARK).write_text(json.dumps({"sources": sources(layout)}) + "\n")
        with tarfile.open(target, "w:xz", dereference=True) as archive:
            # In order of their names, and with what `_same` leaves: equal kernels, equal archives.
            for path in sorted(folder.rglob("*")):
                archive.add(path, str(path.relative_to(folder)), recursive=False, filter=_same)
    digest = _digest(target)
    beside = target.with_name(target.name + ".sha256")
    beside.write_text(f"{digest}  {target.name}\n")
    return digest


def sources(layout: Layout) -> str:
    """Hash of the patches, new files and configuration that a kernel is made from."""
    whole = hashlib.sha256()
    config = layout.linux / "config"
    configs = [config / "base.config", config / layout.version / "base.config"]
    files = [*configs, *layout.patches.glob("*"), *layout.source.rglob("*")]
    for path in sorted(filter(Path.is_file, files)):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(layout.linux)} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def note_sources(layout: Layout, made_from: str) -> None:
    """The plain kernel was built from these `sources`."""
    (layout.out() / _MADE_FROM).write_text(made_from)


def unpack(layout: Layout, origin: str, digest: str | None, say: Callable[[str], None]) -> Path:
    """Put the kernel of an archive, a path or an https or file URL, where builds are.

    `digest` is its SHA-256; without one the file beside it, with `.sha256` at the end of its name,
    has it.

    Raises:
        UsageError: the address or the SHA-256 is none.
        PagelabError: it cannot be had, is not what was asked for, has what it should not have, or
            a kernel was built in its place.

    """
    out = layout.out()
    if digest is not None and not _SUM.fullmatch(digest):
        raise UsageError(f"'{digest}' is no SHA-256, which has 64 hexadecimal digits")
    _refuse_built(out)
    wanted = digest or _beside(origin)
    with only_one(layout.work), tempfile.TemporaryDirectory(dir=layout.work) as work:
        _refuse_built(out)  # by whoever had the lock
        packed = Path(work) / "packed"
        say(f"fetching {origin}")
        _download(origin, packed)
        if (found := _digest(packed)) != wanted.lower():
            raise PagelabError(f"{origin} has the SHA-256 {found}, and not {wanted}")
        fresh = Path(work) / "out"
        fresh.mkdir()
        _extract(packed, fresh)
        mark = fresh / MARK
        if not mark.is_file() or not (fresh / _IMAGE).is_file():
            raise PagelabError(f"{origin} is not an archive of `pagelab linux artefact`")
        if _made_from(mark) != sources(layout):
            say(
                "this kernel was made from other patches than this pagelab has: "
                "modules and tests may not fit"
            )
        if out.exists():
            out.replace(Path(work) / "old")
        fresh.replace(out)
    return layout.image()


def _refuse_built(out: Path) -> None:
    if out.exists() and not (out / MARK).exists():
        raise PagelabError(f"a kernel was built in {out}: remove that folder to have another")


def _made_from(mark: Path) -> object:
    try:
        said = json.loads(mark.read_text())
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise PagelabError(f"the archive does not say what its kernel was made from: {MARK}")
    return said.get("sources")


def _same(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open(origin: str) -> IO[bytes]:
    """A path, or an address whose answer nobody on the way can change."""
    scheme = urlsplit(origin).scheme
    try:
        if "://" not in origin:
            return Path(origin).open("rb")
        if scheme not in ("https", "file"):
            raise UsageError(f"{origin}: only https and file addresses are fetched")
        opener = urllib.request.build_opener(_Https())
        answer: IO[bytes] = opener.open(origin, timeout=60)
        return answer
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PagelabError(f"{origin}: {error}") from error


class _Https(urllib.request.HTTPRedirectHandler):
    """Does not follow a server to an address that is not https."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if urlsplit(newurl).scheme != "https":
            raise PagelabError(f"{req.full_url} leads to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _beside(origin: str) -> str:
    with _open(origin + ".sha256") as file:
        words = next(_chunks(file, 4096), b"").decode(errors="replace").split()
    if not words or not _SUM.fullmatch(words[0]):
        raise PagelabError(f"{origin}.sha256 does not begin with a SHA-256")
    return words[0]


def _download(origin: str, packed: Path) -> None:
    left = MOST_PACKED
    with packed.open("wb") as file, _open(origin) as source:
        for chunk in _chunks(source, _CHUNK):
            left -= len(chunk)
            if left < 0:
                raise PagelabError(f"the archive has more than {MOST_PACKED >> 20} MB")
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                raise PagelabError(f"the archive cannot be kept: {error}") from error


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    try:
        while chunk := source.read(size):
            yield chunk
    # A connection that ends early is the latter.
    except (OSError, http.client.HTTPException) as error:
        raise PagelabError(f"the archive cannot be read: {error}") from error


class _Bounded(io.RawIOBase):
    """A stream that fails past a limit, whatever a header in it says of sizes."""

    def __init__(self, stream: BinaryIO | lzma.LZMAFile, most: int) -> None:
        self._stream, self._left, self._most = stream, most, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        # One byte more than is left tells whether the stream goes on.
        size = self._left + 1 if size < 0 else min(size, self._left + 1)
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise PagelabError(f"the archive unpacks to more than {self._most >> 20} MB")
        return content


def _extract(packed: Path, folder: Path) -> None:
    """Files and folders below `folder`; no link is made, so that none can be followed."""
    try:
        with (
            lzma.open(packed) as stream,
            tarfile.open(fileobj=_Bounded(stream, MOST_UNPACKED), mode="r|") as archive,
        ):
            for member in archive:
                _extract_one(archive, member, folder)
    # tarfile calls itself for each of the headers in a row that describe the next.
    except (
        *(tarfile.TarError, lzma.LZMAError, EOFError),
        *(OSError, ValueError, RecursionError),
    ) as error:
        raise PagelabError(f"the archive cannot be unpacked: {error}") from error


def _extract_one(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise PagelabError(f"the archive has a file outside of its folder: {member.name!r}")
    target = folder / name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    if not member.isreg() or member.issparse():
        raise PagelabError(f"the archive has what is neither a file nor a folder: {member.name!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None  # of a regular file
    with target.open("xb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
