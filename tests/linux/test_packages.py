"""Debian packages of the kernel: what is in them boots, and modules can be built against it."""

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import build, guest, layout
from pagelab.linux.guest import Machine
from pagelab.linux.layout import Layout


@pytest.fixture(scope="module")
def unpacked() -> Iterator[Path]:
    """The newest image and headers packages, where a guest sees them."""
    where = layout.find()
    found = sorted(where.work.glob("linux-*.deb"), key=lambda path: path.stat().st_mtime)
    newest = {path.name.split("-")[1]: path for path in found if "-dbg_" not in path.name}
    if not {"image", "headers"} <= newest.keys():
        pytest.skip("no packages built: make linux-deb")
    with tempfile.TemporaryDirectory(dir=where.work, prefix="unpacked-") as folder:
        for name in ("image", "headers"):
            subprocess.run(["dpkg-deb", "--extract", newest[name], folder], check=True)
        yield Path(folder)


def test_the_packaged_kernel_boots_and_loads_its_modules(machine: Machine, unpacked: Path) -> None:
    (image,) = (unpacked / "boot").glob("vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    script = f"uname -r; modprobe -d {unpacked} foliomap_kunit && cut -d' ' -f1 /proc/modules"
    result = guest.run(replace(machine, image=image), ["sh", "-c", script])
    assert result.stdout.decode().split() == [release, "foliomap_kunit", "kunit"]
    assert "CONFIG_FOLIOMAP=y" in (unpacked / "boot" / f"config-{release}").read_text()


def test_a_module_is_built_with_the_packaged_headers(machine: Machine, unpacked: Path) -> None:
    (image,) = (unpacked / "boot").glob("vmlinuz-*")
    (headers,) = (unpacked / "usr" / "src").glob("linux-headers-*")
    source = unpacked / "hello"
    source.mkdir()
    (source / "Kbuild").write_text("obj-m := hello.o\n")
    (source / "hello.c").write_text(
        "#include <linux/module.h>\n"
        'MODULE_LICENSE("GPL");\n'
        'static int __init hello(void) { pr_warn("hello from a module\\n"); return 0; }\n'
        "module_init(hello);\n"
    )
    subprocess.run(["make", "-s", "-C", headers, f"M={source}", "modules"], check=True)
    result = guest.run(replace(machine, image=image), ["insmod", str(source / "hello.ko")])
    assert result.status == 0
    assert any(line.endswith("hello from a module") for line in result.console)


def test_packages_need_a_kernel(tmp_path: Path) -> None:
    with pytest.raises(PagelabError, match="pagelab linux build --debug vm"):
        build.debian_packages(Layout(tmp_path), ("vm",), 1, lambda *_: None)
