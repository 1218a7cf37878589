"""Traces by content: named by path or address, known by SHA-256, fetched once a machine.

A source of the simulator (docs/simulate.md) is JSON; here each trace in it gets a `sha256`, and its
`path` may be an address of any kind that fsspec opens: s3://, sftp://, https://. The rest of the
address after `#sha256=` is the hash that the content must have.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from pagelab import files
from pagelab.errors import PagelabError, UsageError, cannot
from pagelab.experiment import store
from pagelab.sources import each_trace

_BLOCK = 1 << 20
# A ChampSim trace with this in its name is read in another way: the one thing that a name says of
# what is in a file.
_LAYOUT = "cloudsuite"
# Statements of a server about a file that change with its content; one of them is enough.
_MARKS = ("ETag", "Content-MD5", "Digest", "Last-Modified")
_LONGEST_NAME = 100
# Seconds for which a file that nobody has locked may be one that somebody is about to lock.
_INSTANT = 60


def named_by_content(source: dict[str, Any]) -> dict[str, Any]:
    """The source with the hash of each trace; what is not on this machine is fetched for it."""

    def name(trace: dict[str, Any]) -> dict[str, Any]:
        address, _, claimed = str(trace["path"]).partition("#sha256=")
        if not _remote(address):
            # By the name that it was given: what a link leads to may be called otherwise.
            address = _text(str(Path(address).absolute()))
            claimed = claimed or file_hash(Path(address))
        else:
            claimed = claimed or _hash_at(address)
        return trace | {"path": address, "sha256": claimed}

    return each_trace(source, name)


def _text(path: str) -> str:
    """The same; raises UsageError for what cannot be in a case, which is JSON."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{path!a} is not text in UTF-8; give the trace another name, or a link to it"
        ) from error
    return path


def label(source: dict[str, Any]) -> str:
    """Name of a source where it is run."""
    return str(source["name"] if source["kind"] == "workload" else Path(source["path"]).name)


def content_of(source: dict[str, Any]) -> dict[str, Any]:
    """The source without the places of its traces: what determines a result."""

    def nowhere(trace: dict[str, Any]) -> dict[str, Any]:
        content = {key: value for key, value in trace.items() if key not in ("path", "name")}
        return content | ({"layout": _LAYOUT} if _LAYOUT in trace["path"].lower() else {})

    return each_trace(source, nowhere)


def fetched(source: dict[str, Any]) -> dict[str, Any]:
    """The source with every trace in a file of this machine whose content is the one named.

    Raises PagelabError when one cannot be had, or is another.
    """

    def here(trace: dict[str, Any]) -> dict[str, Any]:
        path = local(trace["path"], trace["sha256"])
        return {key: value for key, value in trace.items() if key != "sha256"} | {"path": str(path)}

    return each_trace(source, here)


def local(address: str, sha256: str) -> Path:
    """A file of this machine with that content: the one at the path, or a fetched copy."""
    if not _remote(address):
        path = Path(address)
        if not path.is_file():
            raise PagelabError(
                f"this machine has no {path}: put it on a shared file system, or name it by an "
                "address that every machine can open (s3://..., sftp://...)"
            )
        _check(file_hash(path), sha256, address)
        return path
    kept = _kept(address, sha256)
    if not kept.exists():
        with _locked(cache_folder() / f"{sha256}.lock"):
            # Another process may have fetched it while this one waited.
            if not kept.exists():
                _fetch(address, sha256)
    return kept


def cache_folder() -> Path:
    """Folder of fetched traces: in $PAGELAB_CACHE, else where everything is."""
    base = os.environ.get("PAGELAB_CACHE")
    return (Path(base) if base else files.cache()) / "traces"


def file_hash(path: Path) -> str:
    """SHA-256 of a file, computed once as long as it is not changed."""
    with cannot("read", path):
        status = path.stat()
        return _hash(str(path), status.st_ino, status.st_size, status.st_mtime_ns)


@cache
def _hash(path: str, inode: int, size: int, changed: int) -> str:
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def _hash_at(address: str) -> str:
    """The hash of what is at an address, which is fetched unless it is as it was last time."""
    filesystem, path = _open(address)
    try:
        mark = _mark(filesystem, path)
    except Exception as error:  # each kind of file system has its own
        raise PagelabError(f"cannot read {address}: {error}") from error
    if mark is None:
        return _fetch(address, None)
    state = f"{address} {mark}"
    known = cache_folder() / "known" / hashlib.sha256(state.encode()).hexdigest()
    with _locked(known.with_suffix(".lock")):
        if known.exists():
            return known.read_text(encoding="utf-8")
        found = _fetch(address, None)
        store.write(known, found.encode())
        return found


def _mark(filesystem: Any, path: str) -> str | None:
    """Mark that is another one when the content is another one; `None` where nothing says."""
    protocol = filesystem.protocol
    if "http" not in ([protocol] if isinstance(protocol, str) else protocol):
        return str(filesystem.ukey(path))
    # That of fsspec is of the address alone.
    said = filesystem.info(path)
    marks = {name: said[name] for name in _MARKS if said.get(name)}
    return f"{marks} {said.get('size')}" if marks else None


def _fetch(address: str, expected: str | None) -> str:
    """Copies what is at an address into the cache, and returns its hash."""
    filesystem, path = _open(address)
    part = cache_folder() / f"{uuid4().hex}.part"
    digest = hashlib.sha256()
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        _tidy(part.parent)
        with part.open("wb") as copy, filesystem.open(path, "rb") as stream:
            with suppress(OSError):  # not every file system can
                fcntl.flock(copy, fcntl.LOCK_EX)
            while block := stream.read(_BLOCK):
                digest.update(block)
                copy.write(block)
        found = digest.hexdigest()
        _check(found, expected or found, address)
        kept = _kept(address, found)
        kept.parent.mkdir(parents=True, exist_ok=True)
        part.replace(kept)
    except PagelabError:
        raise
    except Exception as error:  # each kind of file system has its own
        raise PagelabError(f"cannot fetch {address}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return found


def _tidy(folder: Path) -> None:
    """Removes what processes left that were killed while they fetched: nobody holds it any more."""
    for part in folder.glob("*.part"):
        with suppress(OSError), part.open("rb") as left:
            # Between its beginning and its lock is an instant.
            if time.time() - part.stat().st_mtime > _INSTANT:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


def _open(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise UsageError(f"{address}: addresses need pip install 'pagelab[remote]'") from error
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise PagelabError(f"cannot open {address}: {error}") from error
    return found


def _kept(address: str, sha256: str) -> Path:
    # Without what is asked of a server behind the path, which may be long.
    name = address.partition("?")[0].rstrip("/").rpartition("/")[2][-_LONGEST_NAME:] or "trace"
    # A name tells whose layout is another one.
    beside = f"{_LAYOUT}-" if _LAYOUT in address.lower() and _LAYOUT not in name.lower() else ""
    return cache_folder() / sha256 / f"{beside}{name}"


def _check(found: str, expected: str, address: str) -> None:
    if found != expected:
        raise PagelabError(f"{address} has the SHA-256 {found}, not {expected}: it was changed")


def _remote(address: str) -> bool:
    return "://" in address


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """One process of this machine at a time; the lock ends with the process that holds it."""
    with cannot("write", lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("w")
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
