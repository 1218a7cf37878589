"""Programs that advice is tried on: eleven that people run, and three made ones."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pagelab.measuring import suite

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
REDIS, POSTGRES, MEMCACHED = 16379, 15432, 21211

NODE = """
const found = new Map();
for (let i = 0; i < 400000; i++) found.set('key ' + (i * 7919) % 400000, {value: i, next: null});
let sum = 0;
for (let round = 0; round < 3; round++) for (const [, one] of found) sum += one.value;
console.log(sum);
"""
JAVA = """
import java.util.HashMap;
class Words {
    public static void main(String[] arguments) {
        HashMap<String, Integer> found = new HashMap<>();
        for (int i = 0; i < 1_500_000; i++)
            found.merge("key " + (i * 7919L) % 700_000, 1, Integer::sum);
        System.out.println(found.size());
    }
}
"""
GO = """
package main

import "fmt"

type node struct {
	left, right *node
	key         int
}

func insert(at *node, key int) *node {
	if at == nil {
		return &node{key: key}
	}
	if key < at.key {
		at.left = insert(at.left, key)
	} else {
		at.right = insert(at.right, key)
	}
	return at
}

func main() {
	var root *node
	found := map[int]int{}
	for i := 0; i < 500000; i++ {
		key := i * 7919 % 500009
		root = insert(root, key*2654435761%500009)
		found[key] = i
	}
	fmt.Println(len(found), root.key)
}
"""
# A load of memcached: values of 1,000 bytes are set, then read in an order of no rule.
MEMCACHED_LOAD = """
import random, socket, sys
link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
answers = link.makefile("rb")
draw, value, keys = random.Random(1), b"x" * 1000, 60_000
for begin in range(0, keys, 100):
    some = range(begin, begin + 100)
    link.sendall(b"".join(b"set %d 0 0 1000\\r\\n%s\\r\\n" % (key, value) for key in some))
    for _ in range(100):
        answers.readline()
for _ in range(2 * keys // 100):
    wanted = [draw.randrange(keys) for _ in range(100)]
    link.sendall(b"".join(b"get %d\\r\\n" % key for key in wanted))
    for _ in range(100):
        answers.readline(), answers.read(1002), answers.readline()
"""


@dataclass(frozen=True)
class Program:
    """A command, and for a server what works it, with the port that it listens at."""

    name: str
    command: list[str]
    load: list[str] | None = None
    port: int = 0


def programs(folder: Path) -> list[Program]:
    """All of them; their inputs are made in a folder."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    suite.prepare(folder)
    had = {one.name: one.command for one in suite.programs(folder)[0]}
    made = [Program(name, had[name]) for name in ("random-updates", "linked-list", "graph-search")]
    distribution = [
        Program("sqlite3", had["sqlite3"]),
        Program("python", had["python-dict"]),
        Program("gcc", had["gcc"]),
        Program("xz -9", ["xz", "-9", "-k", "-c", str(_text(folder))]),
        Program("node", ["node", str(_written(folder / "words.js", NODE))]),
        Program("java", ["java", "-Xmx512m", "-cp", str(folder), "Words"]),
        Program("go", [str(folder / "tree")]),
        Program("512 MiB touched once", [sys.executable, "-c", "b'1' * (512 << 20)"]),
    ]
    source = _written(folder / "Words.java", JAVA)
    subprocess.run(["javac", "-d", str(folder), str(source)], check=True)
    source = _written(folder / "tree.go", GO)
    subprocess.run(["go", "build", "-o", str(folder / "tree"), str(source)], check=True)
    return [*made, *distribution, *servers(folder)]


def servers(folder: Path) -> list[Program]:
    """Servers, each with its load."""
    load = _written(folder / "memcached_load.py", MEMCACHED_LOAD)
    data = _database(folder / "postgres")
    redis = ["redis-server", "--port", str(REDIS), "--save", "", "--dir", str(folder)]
    words = f"-p {REDIS} -t set -n 150000 -r 150000 -d 100 -P 16 -q --csv".split()
    postgres = ["-D", str(data), "-p", str(POSTGRES), "-k", str(data)]
    queries = ["-S", "-n", "-c", "1", "-t", "8000", "-h", str(data), "-p", str(POSTGRES)]
    return [
        Program("redis", redis, ["redis-benchmark", *words], REDIS),
        Program(
            "memcached",
            ["memcached", "-u", "nobody", "-m", "256", "-p", str(MEMCACHED)],
            [sys.executable, str(load), str(MEMCACHED)],
            MEMCACHED,
        ),
        Program(
            "postgres",
            [*NOBODY, *_of_postgres("postgres"), *postgres],
            [*NOBODY, "pgbench", *queries, "postgres"],
            POSTGRES,
        ),
    ]


def _of_postgres(name: str) -> list[str]:
    """A program of PostgreSQL, where Debian puts those that are not for everybody."""
    found = shutil.which(name) or str(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))[-1])
    return [found]


def _database(data: Path) -> Path:
    """A database for pgbench with a scale of 10, some 150 MB, made once."""
    if (data / "done").exists():
        return data
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    shutil.chown(data, 65534, 65534)
    data.chmod(0o700)
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*NOBODY, *_of_postgres("initdb"), "-D", str(data)], **quiet)
    control = [*NOBODY, *_of_postgres("pg_ctl"), "-D", str(data)]
    options = f"-p {POSTGRES} -k {data}"
    subprocess.run([*control, "-w", "-l", str(data / "log"), "-o", options, "start"], **quiet)
    made = ["pgbench", "-i", "-q", "-s", "10", "-h", str(data), "-p", str(POSTGRES), "postgres"]
    try:
        subprocess.run([*NOBODY, *made], **quiet)
    finally:
        subprocess.run([*control, "-w", "stop"], **quiet)
    (data / "done").touch()
    return data


def _text(folder: Path) -> Path:
    """Sources of Python's library, as one file of some megabytes."""
    file = folder / "text"
    sources = sorted(Path(subprocess.__file__).parent.glob("*.py"))
    file.write_bytes(b"".join(source.read_bytes() for source in sources)[: 4 << 20])
    return file


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="ascii")
    return file
