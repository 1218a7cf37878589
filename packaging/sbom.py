"""What the wheel's compiled files carry, as CycloneDX 1.5.

maturin would describe the module it builds; the recorder's plugin and the probe are built beside
it, and the probe is linked statically, so that a C library is part of it.
"""

import json
import platform
import subprocess
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = "x86_64-unknown-linux-gnu"
# Crates, and the files that are built from them.
FILES = {
    "pagelab-python": "pagelab/_core.abi3.so",
    "pagelab-recorder-plugin": "pagelab/plugins/libpagelab_plugin.so",
    "pagelab-probe": "pagelab/plugins/pagelab-probe",
}

Json = dict[str, Any]


def bill() -> Json:
    """The bill of materials, the same for the same sources and tools."""
    metadata = json.loads(_output("cargo", "metadata", "--format-version=1", "--locked"))
    packages = {_purl(one["name"], one["version"]): one for one in metadata["packages"]}
    checksums = {
        _purl(entry["name"], entry["version"]): entry.get("checksum")
        for entry in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    }
    graph = linked()
    rust, libc = _rust(), _libc()
    for purl in graph:
        if packages[purl]["name"] in FILES:
            graph[purl].add(rust["bom-ref"])
        if packages[purl]["name"] == "pagelab-probe":
            graph[purl].add(libc["bom-ref"])
    own = sorted(purl for purl in graph if packages[purl]["name"] in FILES)
    graph |= {"pagelab": set(own), rust["bom-ref"]: set(), libc["bom-ref"]: set()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "pagelab",
                "name": "pagelab",
                "version": packages[own[0]]["version"],
            },
        },
        "components": [
            *(
                _crate(purl, packages[purl], checksums.get(purl))
                for purl in sorted(graph)
                if purl in packages
            ),
            rust,
            libc,
        ],
        "dependencies": [{"ref": ref, "dependsOn": sorted(graph[ref])} for ref in sorted(graph)],
    }


def linked() -> dict[str, set[str]]:
    """What each crate is linked with, with the features that are on when the files are built.

    Neither what runs while they are built is listed, nor what only tests need.
    """
    graph: dict[str, set[str]] = {}
    for name in FILES:
        tree = _output(
            *("cargo", "tree", "--locked", f"--package={name}", f"--target={TARGET}"),
            *("--edges=normal,no-proc-macro", "--prefix=depth", "--format= {p}"),
        )
        above: list[str] = []
        for line in tree.splitlines():
            # "2 libc v0.2.1"; the depth says whose dependency it is.
            depth, crate, version = line.split()[:3]
            purl = _purl(crate, version.removeprefix("v"))
            graph.setdefault(purl, set())
            del above[int(depth) :]
            if above:
                graph[above[-1]].add(purl)
            above.append(purl)
    return graph


def _purl(name: str, version: str) -> str:
    return f"pkg:cargo/{name}@{version}"


def _crate(purl: str, package: Json, checksum: str | None) -> Json:
    component: Json = {
        "type": "library",
        "bom-ref": purl,
        "name": package["name"],
        "version": package["version"],
        "purl": purl,
    }
    if package["license"]:
        # Crates of before SPDX expressions have "MIT/Apache-2.0".
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if path := FILES.get(package["name"]):
        component["properties"] = [{"name": "file", "value": path}]
    return component


def _rust() -> Json:
    version = _output("rustc", "--version").split()[1]
    return {
        "type": "library",
        "bom-ref": "rust-std",
        "name": "rust-std",
        "version": version,
        "purl": f"pkg:generic/rust-std@{version}",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    }


def _libc() -> Json:
    version = platform.libc_ver()[1]
    purl = f"pkg:generic/glibc@{version}"
    try:
        version = _output("dpkg-query", "--show", "--showformat=${Version}", "libc6-dev")
        distribution = platform.freedesktop_os_release()["ID"]
        purl = f"pkg:deb/{distribution}/glibc@{version}?arch=source"
    except (OSError, subprocess.CalledProcessError):
        pass  # not of Debian's family
    return {
        "type": "library",
        "bom-ref": "glibc",
        "name": "glibc",
        "version": version,
        "purl": purl,
        "licenses": [{"expression": "LGPL-2.1-or-later"}],
    }


def _output(*argv: str) -> str:
    return subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    print(json.dumps(bill(), indent=1))
