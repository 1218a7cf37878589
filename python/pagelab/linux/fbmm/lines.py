"""Table 7: how much code a memory manager is."""

from pathlib import Path

from pagelab.linux import manager, markdown
from pagelab.linux.fbmm.part import Data, Say
from pagelab.linux.layout import Layout


def measure(layout: Layout, plan: Data, say: Say) -> Data:
    """Files and lines of each module, and what the kernel's own part changes."""
    say("counting lines")
    modules = layout.linux / "modules"
    found = {name: _count(modules / name) for name in [*manager.names(layout), manager.LIBRARY]}
    patches = [path for path in sorted(layout.patches.glob("*.patch")) if "fbmm" in path.name]
    first = layout.patches / plan["first_patch"]
    texts = [path.read_text() for path in dict.fromkeys([first, *patches])]
    found["kernel"] = changed("\n".join(texts))
    return found


def _count(folder: Path) -> Data:
    files = [path for path in folder.iterdir() if path.suffix in (".c", ".h")]
    return {
        "files": len(files),
        "lines": sum(len(path.read_text().splitlines()) for path in files),
    }


def changed(patches: str) -> Data:
    """Files that patches touch, and the lines they add."""
    lines = patches.splitlines()
    files = {line.split()[1] for line in lines if line.startswith("+++ b/")}
    added = [line for line in lines if line.startswith("+") and not line.startswith("+++ ")]
    return {"files": len(files), "lines": len(added)}


def render(plan: Data, data: Data) -> str:
    """Ours, the paper's, and the systems that they stand for."""
    rows = []
    for name, one in data.items():
        paper = plan["paper"].get(name, ["", ""])
        like = plan["like"].get(name)
        stands = f"{like[0]}: {like[1]}, {like[2]}" if like else ""
        label = {"kernel": "the kernel's part", manager.LIBRARY: "mfs, which all share"}
        rows.append(
            [
                label.get(name, name),
                *(str(one[key]) for key in ("files", "lines")),
                *map(str, paper),
                stands,
            ]
        )
    head = ["", "files", "lines", "paper: files", "lines", "what it stands for: files, lines"]
    return markdown.table(head, rows)
