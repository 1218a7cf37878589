#!/bin/sh
# Installs the Debian packages that a goal needs, or says which are missing and how to get them.
#
#   scripts/system-packages.sh demo|bench|qemu|test|wheel-test|linux|linux-deb
#
# Prints nothing and asks nothing of the package manager when everything is there.
set -eu

goal=${1:?usage: system-packages.sh demo|bench|qemu|test|wheel-test|linux|linux-deb}

missing=
# need PACKAGE COMMAND...: PACKAGE is missing when one of the commands is.
need() {
    package=$1
    shift
    for command in "$@"; do
        if ! command -v "$command" >/dev/null 2>&1; then
            missing="$missing $package"
            return
        fi
    done
}

need gcc cc
# Debian splits ensurepip off from its interpreter.
if ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    missing="$missing python3-venv"
fi
if [ "$goal" = bench ]; then
    # One of the programs whose recording is timed.
    need sqlite3 sqlite3
    # What counts instructions.
    need valgrind valgrind
fi

if [ "$goal" = test ]; then
    need valgrind valgrind
    need chromium chromium
    need mandoc mandoc
    # A Slurm of one node, which the tests of sweeps start.
    need slurm-wlm sbatch
    [ -x /usr/sbin/munged ] || missing="$missing munge"
    # A screenshot without any font is a blank one.
    if [ -z "$(find /usr/share/fonts -name '*.[ot]tf' 2>/dev/null | head -n 1)" ]; then
        missing="$missing fonts-dejavu-core"
    fi
fi

if [ "$goal" = wheel-test ]; then
    need debootstrap debootstrap
fi

if [ "$goal" = qemu ]; then
    # What compiles QEMU's user mode, and the libraries that are linked into it.
    need make make
    need pkg-config pkg-config
    need xz-utils xz
    need patch patch
    need binutils strip objdump
    for library in libglib2.0-dev:libglib-2.0.a libpcre2-dev:libpcre2-8.a zlib1g-dev:libz.a; do
        case $(cc -print-file-name="${library#*:}" 2>/dev/null) in
        /*) ;;
        *) missing="$missing ${library%%:*}" ;;
        esac
    done
fi

if [ "$goal" = linux ] || [ "$goal" = linux-deb ]; then
    # The patched kernel: its source, what compiles it and what boots it.
    [ -f /usr/src/linux-source-6.12.tar.xz ] || missing="$missing linux-source-6.12"
    need make make
    need flex flex
    need bison bison
    need bc bc
    need ccache ccache
    need git git
    need xz-utils xz
    need perl perl
    [ -f /usr/include/gelf.h ] || missing="$missing libelf-dev"
    [ -f /usr/include/openssl/ssl.h ] || missing="$missing libssl-dev"
    need qemu-system-x86 qemu-system-x86_64
    need util-linux setpriv
    need kmod kmod
    # What runs in guests, from the host's file system.
    [ -x /usr/sbin/mkfs.xfs ] || missing="$missing xfsprogs"
    need redis-server redis-server
    need redis-tools redis-cli
    need memcached memcached
    need stress-ng stress-ng
    need sqlite3 sqlite3
    # One of the kernel's own tests.
    [ -f /usr/include/numa.h ] || missing="$missing libnuma-dev"
    [ -n "$(ls /usr/lib/postgresql/*/bin/pgbench 2>/dev/null)" ] || missing="$missing postgresql"
    /usr/bin/python3 -c 'import test.test_mmap' 2>/dev/null ||
        missing="$missing lib$(basename "$(readlink -f /usr/bin/python3)")-testsuite"
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || missing="$missing python3-numpy"
fi
if [ "$goal" = linux-deb ]; then
    # What the kernel's own packaging asks for on top (scripts/package/mkdebian).
    need dpkg-dev dpkg-buildpackage
    need debhelper dh
    need cpio cpio
    need rsync rsync
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "pagelab needs Rust (stable, 1.89 or newer): cargo is not on the PATH." >&2
    echo "Install it with rustup (Debian 13 packages it); Debian 12's own cargo is too old." >&2
    exit 1
fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "pagelab needs Python 3.11 or newer; python3 is $(python3 --version 2>&1)." >&2
    exit 1
fi

[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "pagelab needs these system packages:$missing" >&2
    echo "Install them with:  sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "pagelab needs what Debian calls:$missing" >&2
    echo "This system has no apt-get; install them with its own package manager." >&2
    exit 1
fi
echo "Installing system packages:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the lists are words on purpose
{
    $as_root apt-get update -qq
    # Another installation is waited for. Containers' apt removes what it has fetched after every
    # update, another one's too, so these packages lie in a folder of their own.
    archives=$($as_root mktemp -d)
    trap '$as_root rm -rf "$archives"' EXIT
    $as_root chmod 755 "$archives"
    $as_root apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=600 \
        -o Dir::Cache::Archives="$archives" $missing >/dev/null
}
