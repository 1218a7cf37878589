"""The kernel's configuration follows the state of the source that is built."""

import shutil
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import build
from pagelab.linux.layout import Layout

# Kconfig, as far as it matters: what the source does not know drops out of .config.
_MAKEFILE = """\
tinyconfig:
	@: > $(O)/.config
olddefconfig:
	@grep -x -f known $(O)/.config > $(O)/.config.new; mv $(O)/.config.new $(O)/.config
modules:
	@test -z "$(M)" || test -d $(M)
bzImage:
	@for file in $$(cat changed); do echo "  CC      $$file"; done
	@mkdir -p $(O)/arch/x86/boot; touch $(O)/arch/x86/boot/bzImage
"""
_MERGE = '#!/bin/sh\nshift 2; out=$1; shift 2\ncat "$@" > "$out/.config"\n'


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A checkout whose kernel has two options, of which its source knows one."""
    where = Layout(tmp_path)
    (where.linux / "config").mkdir(parents=True)
    (where.linux / "config" / "base.config").write_text("CONFIG_OLD=y\nCONFIG_NEW=y\n")
    merge = where.tree / "scripts" / "kconfig" / "merge_config.sh"
    merge.parent.mkdir(parents=True)
    merge.write_text(_MERGE)
    merge.chmod(0o755)
    (where.tree / "Makefile").write_text(_MAKEFILE)
    (where.tree / "known").write_text("CONFIG_OLD=y\n")
    return where


def test_an_option_of_a_later_patch_is_on_when_the_patch_is_there(layout: Layout) -> None:
    config = layout.out() / ".config"
    build.configure(layout, (), lenient=True)
    assert config.read_text() == "CONFIG_OLD=y\n"
    (layout.tree / "known").write_text("CONFIG_OLD=y\nCONFIG_NEW=y\n")
    build.configure(layout, (), lenient=True)
    assert config.read_text() == "CONFIG_OLD=y\nCONFIG_NEW=y\n"


def test_an_option_that_does_not_take_effect_is_named(layout: Layout) -> None:
    with pytest.raises(PagelabError, match=r"base\.config: CONFIG_NEW=y"):
        build.configure(layout, ())


def test_a_module_that_is_gone_is_not_built_any_more(layout: Layout) -> None:
    modules = layout.linux / "modules"
    for name in ("old", "new"):
        (modules / name).mkdir(parents=True)
        (modules / name / "Kbuild").touch()
    copy = build.build_module(layout, (), modules)
    shutil.rmtree(modules / "old")
    assert build.build_module(layout, (), modules) == copy
    assert [path.name for path in copy.iterdir()] == ["new"]


def test_how_far_a_build_is_is_told_of_whole_ones_only(layout: Layout) -> None:
    said: list[tuple[int, int, str]] = []

    def compile_them(*files: str) -> list[tuple[int, int, str]]:
        (layout.tree / "changed").write_text("\n".join(files))
        said.clear()
        build.compile_kernel(layout, (), 1, lambda *told: said.append(told))
        return said

    layout.out().mkdir(parents=True)
    assert compile_them("a.o", "b.o") == [(1, 0, "a.o"), (2, 0, "b.o")]
    assert compile_them("b.o") == [(1, 0, "b.o")]
    layout.image().unlink()
    assert compile_them("a.o", "b.o") == [(1, 2, "a.o"), (2, 2, "b.o")]
