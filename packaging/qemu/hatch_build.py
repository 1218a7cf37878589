"""Puts what build.py has built into the wheel, and the platform into its name."""

import json
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = Path(__file__).resolve().parents[2] / "build" / "qemu" / "current"

# Names, pkg-config's names, licences.
LIBRARIES = [
    ("glib", "glib-2.0", "LGPL-2.1-or-later"),
    ("pcre2", "libpcre2-8", "BSD-3-Clause"),
    ("zlib", "zlib", "Zlib"),
]


def manifest() -> dict[str, Any]:
    """What build.py says of it."""
    try:
        described: dict[str, Any] = json.loads((BUILT / "manifest.json").read_text())
    except FileNotFoundError:
        raise SystemExit(f"{BUILT} is missing: run make qemu first") from None
    return described


def version() -> str:
    """QEMU's."""
    return str(manifest()["version"])


def bill() -> dict[str, Any]:
    """What the emulator is made of, as CycloneDX: QEMU and the libraries linked statically."""
    described = manifest()
    qemu = {
        "type": "application",
        "bom-ref": "qemu",
        "name": "qemu",
        "version": described["version"],
        "purl": f"pkg:generic/qemu@{described['version']}",
        "licenses": [{"expression": "GPL-2.0-only"}],
        # Of the source's archive.
        "hashes": [{"alg": "SHA-256", "content": described["sha256"]}],
    }
    libraries = [library(*one) for one in LIBRARIES]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": qemu},
        "components": libraries,
        "dependencies": [{"ref": "qemu", "dependsOn": [one["bom-ref"] for one in libraries]}],
    }


def library(name: str, known_as: str, licence: str) -> dict[str, Any]:
    """One that is linked: of the machine that builds, where pkg-config knows its version."""
    version = subprocess.run(
        ["pkg-config", "--modversion", known_as], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "purl": f"pkg:generic/{name}@{version}",
        "licenses": [{"expression": licence}],
    }


class PlatformHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the emulator and its licences."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it writes the wheel."""
        del version
        # One that was built on a newer system is for that system only.
        platform = "manylinux_2_34_x86_64" if manifest()["portable"] else "linux_x86_64"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        files = ["qemu-x86_64", "manifest.json", "COPYING", "COPYING.LIB", "LICENSE"]
        for name in files:
            build_data["force_include"][str(BUILT / name)] = f"pagelab_qemu/{name}"
        listed = BUILT / "pagelab-qemu.cdx.json"
        listed.write_text(json.dumps(bill(), indent=1))
        build_data["sbom_files"].append(str(listed))
