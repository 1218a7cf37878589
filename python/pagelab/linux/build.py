"""Compile the patched kernel: configuration fragments, progress, ccache."""

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from pagelab.errors import PagelabError, unknown
from pagelab.linux.guest import FOUR_LEVELS
from pagelab.linux.layout import VERSION, Layout
from pagelab.linux.lock import held, only_one
from pagelab.linux.process import capture

# make's one line a file: "  CC      mm/rmap.o"
_STEP = re.compile(r"^\s+(?:\[M\]\s+)?[A-Z]{2,8}\s+(?:\[M\]\s+)?(\S+)")
_CFLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread")
LOG = "pagelab-build.log"
# Number of files that the last full build took
_TOTAL = ".pagelab-total"
# A build directory with this file was not built here: artefact.py.
PREBUILT = ".pagelab-prebuilt"
# Version of the image and of the packages: equal, so that packaging does not link the kernel again.
_BUILD = "1"
# Kernel parameters of the designs, by their first word, and the option that brings them.
_DESIGNS = {"foliomap": "FOLIOMAP", "foliomap_ids": "FOLIOMAP", "fbmm": "FBMM", "dpt": "DPT"}
# Told of the files built so far, the files the last full build took or 0, and the current one.
Progress = Callable[[int, int, str], None]


def _fragments(layout: Layout, name: str) -> list[Path]:
    """Fragments of that name: what all versions share, then what this version says."""
    folders = (layout.linux / "config", layout.linux / "config" / layout.version)
    return [folder / name for folder in folders if (folder / name).is_file()]


def debug_options(layout: Layout) -> list[str]:
    """Names that `--debug` accepts: one configuration fragment each, debug-NAME.config."""
    config = layout.linux / "config"
    found = [*config.glob("debug-*.config"), *(config / layout.version).glob("debug-*.config")]
    return sorted({path.stem.removeprefix("debug-") for path in found})


def need_designs(layout: Layout, debug: tuple[str, ...], append: str) -> None:
    """Refuse kernel parameters of designs that the kernel does not have.

    Linux itself would pass them on to the first process without a word, and a comparison of a
    design off and on would be one of a kernel with itself.

    Raises:
        PagelabError: it has not; names the parameter and the kernel.

    """
    config = layout.out(debug) / ".config"
    have = config.read_text().splitlines() if config.exists() else []
    for word in append.split():
        design = _DESIGNS.get(word.partition("=")[0])
        if have and design is not None and f"CONFIG_{design}=y" not in have:
            why = ""
            if not layout.patches.is_dir():
                why = f": Linux {layout.version} is built without patches"
            elif layout.version != VERSION:
                there = sorted({one for one in _DESIGNS.values() if f"CONFIG_{one}=y" in have})
                why = f": of the designs, this one of Linux {layout.version} has " + (
                    ", ".join(there) or "none"
                )
            raise PagelabError(
                f"{word}: the kernel in {layout.out(debug)} has no CONFIG_{design}{why}"
            )


def parameters(debug: tuple[str, ...], append: str) -> str:
    """Parameters of such a kernel when it boots, beside `append`.

    With KASAN four levels of page tables. Where its shadow begins depends on X86_FEATURE_LA57,
    which identify_cpu() clears and reads anew: of an interrupt between the two KASAN says that
    all of its accesses are wild, now and then, and with five levels only.
    """
    return f"{append} {FOUR_LEVELS}".strip() if "kasan" in debug else append


def configure(layout: Layout, debug: tuple[str, ...], *, lenient: bool = False) -> None:
    """Write .config into the build directory: tinyconfig plus the version's fragments.

    Raises:
        PagelabError: an option did not take effect; names the fragment and the option. Not if
            `lenient`: some patches of a series may not have been applied yet.

    """
    out = layout.out(debug)
    if (out / PREBUILT).exists():
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    fragments = _fragments(layout, "base.config")
    for name in debug:
        if name not in debug_options(layout):
            raise unknown("debug option", name, debug_options(layout))
        fragments += _fragments(layout, f"debug-{name}.config")
    stamp = out / ".pagelab-config"
    inputs = "".join(path.read_text() for path in fragments)
    made = stamp.exists() and stamp.read_text() == inputs and (out / ".config").exists()
    # An option that an earlier state of the source did not know is no longer in its .config.
    if made and not lenient:
        _make(layout, out, ["olddefconfig"])
    else:
        _make(layout, out, ["tinyconfig"])
        merge = layout.tree / "scripts" / "kconfig" / "merge_config.sh"
        capture([merge, "-m", "-O", out, out / ".config", *fragments], cwd=out)
        _make(layout, out, ["olddefconfig"])
        stamp.write_text(inputs)
    missing = list(_not_taken((out / ".config").read_text(), fragments))
    if missing and not lenient:
        stamp.unlink(missing_ok=True)
        raise PagelabError("\n".join(["the kernel's Kconfig refused:", *missing]))


def warnings(layout: Layout, debug: tuple[str, ...] = ()) -> list[str]:
    """Warnings of the compiler when the kernel was last built."""
    log = layout.out(debug) / LOG
    return [line for line in log.read_text(errors="replace").splitlines() if "warning:" in line]


def compile_kernel(layout: Layout, debug: tuple[str, ...], jobs: int, progress: Progress) -> Path:
    """Build the image and the modules; return the image."""
    _make_logged(layout, debug, ["bzImage", "modules"], jobs, progress, LOG)
    return layout.image(debug)


def expected(layout: Layout, debug: tuple[str, ...]) -> int:
    """Number of files that a build compiles: the last whole one's, else what is known, or 0.

    It is not known, 0, where an image is there: make compiles what has changed.
    """
    if layout.image(debug).exists():
        return 0
    last = layout.out(debug) / _TOTAL
    known = layout.linux / "config" / layout.version / "files"
    return int(next((path.read_text() for path in (last, known) if path.exists()), 0))


def _make_logged(
    layout: Layout,
    debug: tuple[str, ...],
    targets: list[str],
    jobs: int,
    progress: Progress,
    log_name: str,
) -> None:
    out = layout.out(debug)
    log_path = out / log_name
    total_path = out / _TOTAL
    whole = int(total_path.read_text()) if total_path.exists() else 0
    total = 0 if layout.image(debug).exists() else whole
    tail: deque[str] = deque(maxlen=40)
    done = 0
    with (
        only_one(layout.work),
        log_path.open("w", buffering=1) as log,
        subprocess.Popen(
            _make_argv(layout, out, [f"-j{jobs}", *targets]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_environment(layout),
            # It may outlive this process, and goes on writing then.
            pass_fds=held(),
        ) as make,
    ):
        assert make.stdout is not None
        try:
            for line in make.stdout:
                log.write(line)
                tail.append(line.rstrip())
                if step := _STEP.match(line):
                    done += 1
                    progress(done, total, step.group(1))
        except BaseException:
            make.terminate()
            raise
    if make.returncode != 0:
        errors = [line for line in tail if "error" in line.lower() or "***" in line] or list(tail)
        raise PagelabError(
            "\n".join(
                [f"make {' '.join(targets)} failed:", *errors[-12:], f"whole log: {log_path}"]
            )
        )
    if done > whole:
        total_path.write_text(str(done))


def build_module(layout: Layout, debug: tuple[str, ...], source: Path) -> Path:
    """Build an out-of-tree module against that kernel; return the directory with the .ko."""
    out = layout.out(debug)
    copy = out / "pagelab-modules" / source.name
    with only_one(layout.work):
        # A module that is gone would be built for ever: linux/modules/Kbuild takes every folder.
        for folder in filter(Path.is_dir, copy.glob("*")):
            if not (source / folder.name).is_dir():
                shutil.rmtree(folder)
        for file in filter(Path.is_file, source.rglob("*")):
            target = copy / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.stat().st_mtime < file.stat().st_mtime:
                shutil.copy2(file, target)
        capture(_make_argv(layout, out, [f"M={copy}", "modules"]), env=_environment(layout))
        return copy


def install_for_modules(layout: Layout, folder: Path) -> None:
    """Put into a folder what modules of the plain kernel are built against, source and built."""
    script = "$(srctree)/scripts/package/install-extmod-build"
    argv = ["make", "-C", str(layout.tree), f"O={layout.out()}", "run-command"]
    capture([*argv, f"KBUILD_RUN_COMMAND={script} {folder}"], env=_environment(layout))


def symbols(image: Path) -> Path | None:
    """System.map of a kernel that was built, if it is there."""
    places = (folder / "System.map" for folder in image.parents)
    return next((place for place in places if place.exists()), None)


def build_program(layout: Layout, source: Path, *flags: str) -> Path:
    """Build a program in C, or what `flags` make of it, when it is older than its source."""
    binary = layout.work / "programs" / source.parent.name / source.stem
    binary.parent.mkdir(parents=True, exist_ok=True)
    headers = [*layout.linux.glob("*/*.h"), *layout.linux.glob("*/*/*.h")]
    newest = max(file.stat().st_mtime for file in [source, *headers])
    with only_one(layout.work):
        if not binary.exists() or binary.stat().st_mtime < newest:
            capture(["gcc", *_CFLAGS, "-o", binary, source, *flags])
    return binary


def build_selftest(layout: Layout, name: str) -> Path:
    """Build one of the kernel's own tests, selftests/FOLDER/NAME; return the program."""
    with only_one(layout.work):
        folder = layout.tree / "tools" / "testing" / Path(name).parent
        if not folder.is_dir():
            raise PagelabError(f"{name} needs the kernel's source: `pagelab linux tree`")
        output = layout.work / name
        headers = layout.work / "headers"
        if not (headers / "usr" / "include").is_dir():
            headers.mkdir(parents=True, exist_ok=True)
            _make(layout, headers, ["headers"])
        output.parent.mkdir(parents=True, exist_ok=True)
        # Some of 6.12's tests forget a header of the framework.
        include = f"-include {folder.parent / 'kselftest.h'} -isystem {headers / 'usr' / 'include'}"
        argv = [
            "make",
            "-C",
            str(folder),
            f"OUTPUT={output.parent}",
            f"KHDR_INCLUDES={include}",
            str(output),
        ]
        capture(argv, env=_environment(layout))
        return output


def debian_packages(
    layout: Layout, debug: tuple[str, ...], jobs: int, progress: Progress
) -> list[Path]:
    """Build installable packages of the kernel, of its headers and of those of the C library.

    Raises:
        PagelabError: the kernel has not been built, or the packages cannot be.

    """
    out = layout.out(debug)
    if not layout.image(debug).exists():
        flags = "".join(f" --debug {name}" for name in debug)
        raise PagelabError(
            f"no kernel in {out}: run `pagelab linux build{layout.flags}{flags}` first"
        )
    release = (out / "include" / "config" / "kernel.release").read_text().strip().rstrip("+")
    targets = [f"KDEB_PKGVERSION={release}-{_BUILD}", "bindeb-pkg"]
    _make_logged(layout, debug, targets, jobs, progress, "pagelab-deb.log")
    # Each is named on a line of its own: "linux-image-6.12.1_6.12.1-1_amd64.deb kernel optional"
    listed = (out / "debian" / "files").read_text().splitlines()
    made = [layout.work / line.split()[0] for line in listed]
    return [path for path in made if path.suffix == ".deb"]


def _make(layout: Layout, out: Path, targets: list[str]) -> None:
    capture(_make_argv(layout, out, targets), env=_environment(layout))


def _make_argv(layout: Layout, out: Path, targets: list[str]) -> list[str]:
    argv = ["make", "-C", str(layout.tree), f"O={out}"]
    if (out / PREBUILT).exists():  # has the source's part of it, too
        argv = ["make", "-C", str(out)]
    if shutil.which("ccache"):
        argv.append("CC=ccache gcc")
    return [*argv, *targets]


def _environment(layout: Layout) -> dict[str, str]:
    # A fixed date and host keep the compiler's cache useful from one build to the next.
    return os.environ | {
        # Look up what the compiler says it read, and do not run the preprocessor first: a fifth
        # of the time of what is not in the cache.
        "CCACHE_DEPEND": "1",
        # Paths below it are hashed as relative ones: trees share what is in the user's cache, those
        # of two checkouts, too.
        "CCACHE_BASEDIR": str(layout.cache),
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
        "KBUILD_BUILD_USER": "pagelab",
        "KBUILD_BUILD_HOST": "pagelab",
        "KBUILD_BUILD_VERSION": _BUILD,
    }


def _not_taken(config: str, fragments: list[Path]) -> Iterator[str]:
    have = set(config.splitlines())
    names = {line.partition("=")[0] for line in have if not line.startswith("#")}
    wanted: dict[str, tuple[str, str]] = {}  # a later fragment has the last word
    for fragment in fragments:
        for line in fragment.read_text().splitlines():
            name, _, value = line.partition("=")
            if name.startswith("CONFIG_"):
                wanted[name] = (value, fragment.name)
    for name, (value, fragment_name) in wanted.items():
        line = f"{name}={value}"
        if (value == "n" and name in names) or (value != "n" and line not in have):
            yield f"  {fragment_name}: {line}"
