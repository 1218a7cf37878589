"""The lint of words (scripts/lint_style.py) on small trees, each beside one that it lets pass."""

import subprocess
import sys
from pathlib import Path

import pytest

LINT = Path(__file__).parents[1] / "scripts" / "lint_style.py"
RUST, PYTHON, C = "crates/a/src/lib.rs", "python/a.py", "linux/a.c"
DOCS = "docs"
WIDE = "word " * 24 + "more"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "scripts").mkdir()
    return tmp_path


def lint(tree: Path, *options: str) -> tuple[int, str]:
    """The exit status, and what is printed."""
    done = subprocess.run(
        [sys.executable, LINT, "--root", tree, *options], capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def put(tree: Path, name: str, text: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)


def stand(tree: Path, rule: str, name: str, count: int) -> None:
    put(tree, "scripts/openings.toml", f'[{rule}]\n"{name}" = {count}\n')


@pytest.mark.parametrize(
    ("name", "wrong", "line", "right"),
    [
        (RUST, "//! What it is.\n", 1, "//! A thing. What it is.\n"),
        (RUST, "fn f() {}\n/// Whether so.\nfn g() {}\n", 2, "/// True if so.\nfn g() {}\n"),
        (RUST, "// How it goes.\n", 1, "// Words.\n// How it goes, in the second line.\n"),
        (RUST, "/// A text.\n// Where it is.\n", 2, "/// A text.\n/// Where it is.\n"),
        (RUST, "let a = 1; // Who asks.\n", 1, 'let a = "// Who asks.";\n'),
        (RUST, 'let a = "\\""; // Who asks.\n', 1, 'let a = r#"" // Who asks."#;\n'),
        (RUST, "let a = '\"'; // Of both.\n", 1, "let a = b'\"'; // Both. Of both.\n"),
        (RUST, "a(); // One.\n// Those two.\n", 2, "// One.\n// Those two.\n"),
        (PYTHON, '"""What it is."""\n', 1, '"""Whatever it is."""\n'),
        (PYTHON, 'def f():\n    """Which one."""\n', 2, 'def f():\n    "A"\n    "Which one."\n'),
        (PYTHON, 'class A:\n    """Whose."""\n', 2, 'class A:\n    """A.\n\n    Whose."""\n'),
        (PYTHON, "a = 1\n# Why so.\n", 2, "# It is.\n# Why so.\n"),
        (PYTHON, "a = 1  # One.\n# Why so.\n", 2, "# One.\n# Why so.\n"),
        (PYTHON, "a = 1  # What it is.\n", 1, 'a = "# What it is."\n'),
    ],
)
def test_a_comment_begins_with_a_noun(
    tree: Path, name: str, wrong: str, line: int, right: str
) -> None:
    put(tree, name, wrong)
    status, said = lint(tree)
    assert (status, said.splitlines()[0]) == (
        1,
        f"FAILED: {name}: 1 comments begin with a relative clause; 0 may stand",
    )
    assert f"  line {line}: " in said
    put(tree, name, right)
    assert lint(tree) == (0, "")


@pytest.mark.parametrize(
    ("name", "head", "foot"),
    [
        (RUST, "pub fn long<const N: usize>(a: [u8; 4]) -> u8 {\n", "}\n"),
        (RUST, 'fn long() {\n    // }\n    let a = (\'}\', "}", r#"}"#);\n', "}\n"),
        (RUST, "trait A {\n    fn before();\n    fn long(&self) {\n", "    }\n}\n"),
        (PYTHON, "@property\ndef long():\n    if a:\n", "    return 1\n"),
        (PYTHON, "class A:\n    async def long(self):\n", "        return 1\n"),
        (C, "static int long_one(struct a *a,\n\t\t    int b)\n{\n", "}\n"),
        (C, "struct a b = {\n\t1,\n};\n\nint long_one(void)\n{\n\tif (b)\n\t{ }\n", "}\n"),
    ],
)
def test_a_function_has_at_most_100_lines(tree: Path, name: str, head: str, foot: str) -> None:
    first = next(at for at, one in enumerate(head.splitlines()) if "long" in one)
    inside = len(head.splitlines()) - first + 1
    filled = "        a();\n" * (100 - inside)
    put(tree, name, head + filled + foot)
    assert lint(tree) == (0, "")
    put(tree, name, head + filled + "        a();\n" + foot)
    status, said = lint(tree)
    assert status == 1
    assert f"  line {first + 1}: " in said
    assert said.rstrip().endswith(": 101 lines")


@pytest.mark.parametrize(
    ("name", "limit"),
    [("guide/a.md", 1500), ("developers/a.md", 1500), ("a.md", 2500)],
)
def test_a_page_has_its_length_unless_it_says_why(tree: Path, name: str, limit: int) -> None:
    name = f"{DOCS}/{name}"
    put(tree, name, "a\n" * limit)
    assert lint(tree) == (0, "")
    put(tree, name, "a\n" * (limit + 1))
    status, said = lint(tree)
    assert status == 1
    assert f"{name}: 1 words too many; 0 may stand" in said
    for mark, passes in (
        (f"<!-- words {limit + 9}: a grammar -->", True),
        (f"<!-- words {limit + 9}: -->", False),
        (f"<!-- words {limit}: a grammar -->", False),
    ):
        put(tree, name, mark + "\n" + "a\n" * (limit + 1))
        assert (lint(tree)[0] == 0) == passes, mark
    put(tree, f"{DOCS}/notebook/a.md", "a\n" * 9999)
    put(tree, name, "")
    assert lint(tree) == (0, "")


@pytest.mark.parametrize(
    ("name", "before", "after", "room"),
    [
        ("README.md", "", "", 120),
        (RUST, "// ", "", 117),
        (PYTHON, "# ", "", 118),
        (PYTHON, '"""', '"""', 114),
    ],
)
def test_a_line_of_prose_has_at_most_120_characters(
    tree: Path, name: str, before: str, after: str, room: int
) -> None:
    put(tree, name, f"{before}{WIDE[:room]:x<{room}}{after}\n")
    assert lint(tree) == (0, "")
    put(tree, name, f"{before}{WIDE[: room + 1]:x<{room + 1}}{after}\n")
    status, said = lint(tree)
    assert status == 1
    assert "1 lines of prose have more than 120 characters; 0 may stand" in said


def test_code_tables_and_addresses_may_be_wide(tree: Path) -> None:
    address = "https://" + "a" * 120
    put(
        tree,
        "README.md",
        f"```\n{WIDE}\n```\n\n    {WIDE}\n\n| {WIDE} |\n\nSee {address}.\n",
    )
    put(tree, RUST, f'// {address}\nlet a = "{WIDE}";\n')
    assert lint(tree) == (0, "")
    put(tree, "README.md", f"```\n```\n{WIDE}\n")
    assert lint(tree)[0] == 1


def test_a_count_may_fall_and_not_rise(tree: Path) -> None:
    two = "// What.\nfn f() {}\n// How.\n"
    stand(tree, "openings", RUST, 2)
    put(tree, RUST, two)
    assert lint(tree) == (0, "")
    put(tree, RUST, two + "fn g() {}\n// Why.\n")
    assert lint(tree)[0] == 1
    # What may stand in one file may not in another.
    put(tree, RUST, "")
    put(tree, "crates/a/src/moved.rs", two)
    assert lint(tree)[0] == 1
    put(tree, "crates/a/src/moved.rs", "")
    put(tree, RUST, "// What.\n")
    status, said = lint(tree)
    assert status == 0
    assert "1 fewer than may stand" in said
    assert lint(tree, "--lower") == (0, "")
    assert f'[openings]\n"{RUST}" = 1\n' in (tree / "scripts/openings.toml").read_text()
    # It lowers and never raises.
    put(tree, RUST, two)
    assert lint(tree, "--lower")[0] == 1
    assert f'"{RUST}" = 1\n' in (tree / "scripts/openings.toml").read_text()


def test_counts_and_places_are_printed(tree: Path) -> None:
    stand(tree, "openings", RUST, 2)
    put(tree, RUST, "// What.\nfn f() {}\n// How.\n")
    put(tree, "README.md", "Three words here.\n")
    said = lint(tree, "--count", "--list", RUST)[1]
    assert f"{RUST}:1: What.\n{RUST}:3: How.\n" in said
    assert "     2 comments begin with a relative clause\n" in said
    assert "     3 words on all pages\n" in said
