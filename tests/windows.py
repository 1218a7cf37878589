"""Records programs with random windows, and compares what they do with what they do unrecorded.

    .venv/bin/python tests/windows.py --runs 100 --seed 1 [--qemu PATH] [--programs sort,node]

A recording must not change what a program does: its output and its exit status are those of a run
without. Where there is a server, its clients' are. Each recording has a window drawn at
random (skip, limit, sample), and some get signals. Prints a line a program, and of each
recording that differed how to repeat it; exits with 1 if any did. tests/test_windows.py runs a few.
"""

import argparse
import contextlib
import hashlib
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).parent / "record"
# So long may one recording take on a busy machine.
PATIENCE = 600


@dataclass(frozen=True)
class Answer:
    """What a program did, as far as a user sees."""

    status: int
    output: str


@dataclass
class Recorder:
    """How to record: the words before the program."""

    qemu: Path | None
    bare: Path | None
    random: random.Random
    window: list[str] = field(default_factory=list)

    def draw(self) -> None:
        """Another window. Most programs here make 10 to 100 million accesses."""
        draw = self.random
        window = []
        if draw.random() < 0.6:
            window.append(f"--skip={int(10 ** draw.uniform(3, 7.5))}")
        if draw.random() < 0.7:
            window.append(f"--limit={int(10 ** draw.uniform(3, 7))}")
        if draw.random() < 0.5:
            # Gaps below 4 million are recorded and dropped; only longer ones are changed over.
            period = int(10 ** draw.uniform(4, 7.7))
            window.append(f"--sample={max(1, period // draw.randint(2, 50))}:{period}")
        if draw.random() < 0.2:
            window.append("--instructions")
        if draw.random() < 0.3:
            window.append("--follow-exec")
        self.window = window

    def command(self, program: list[str], trace: Path) -> list[str]:
        """The program recorded."""
        if self.bare:
            words = [str(self.bare), "--quiet", *self.window]
            words += [f"--qemu={self.qemu}"] if self.qemu else []
            return [*words, str(trace), *program]
        words = [sys.executable, "-m", "pagelab", "record", "--quiet", "-o", str(trace)]
        words += [f"--qemu={self.qemu}"] if self.qemu else []
        return [*words, *self.window, "--", *program]


# Runs a program, given how to wrap it, in a folder of its own.
Wrap = Callable[[list[str]], list[str]]
Job = Callable[[Wrap, Path, random.Random], Answer]


def build(folder: Path, name: str, *flags: str) -> str:
    """A program of tests/record, compiled."""
    source = SOURCES / name
    target = folder / source.stem
    if source.suffix == ".go":
        words = ["go", "build", "-o", str(target), str(source)]
    elif source.suffix == ".java":
        words = ["javac", "-d", str(folder), str(source)]
    else:
        words = ["gcc", "-O2", "-g0", *flags, "-o", str(target), str(source), "-pthread"]
    if not target.exists():
        subprocess.run(words, check=True, cwd=folder, capture_output=True)
    return str(target)


def run(wrap: Wrap, program: list[str], folder: Path, signals: random.Random | None) -> Answer:
    """Runs it to its end, sending SIGUSR1 now and then if it wants some."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            wrap(program), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            cwd=folder,
        )  # fmt: skip
        until = time.monotonic() + PATIENCE
        while child.poll() is None and time.monotonic() < until:
            if signals is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(until - time.monotonic())
                continue
            time.sleep(signals.uniform(0.02, 0.3))
            for pid in programs_of(child.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGUSR1)
        if child.poll() is None:
            child.kill()
            return Answer(child.wait(), "it did not end")
        output.seek(0)
        text = output.read()
    return Answer(child.returncode, digest(text))


def programs_of(pid: int) -> list[int]:
    """The children of a recorder that have said that they handle SIGUSR1."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += (task / "children").read_text().split()
    handled = []
    for number in map(int, set(found)):
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{number}/status").read_text()
            caught = int(status.split("SigCgt:")[1].split()[0], 16)
            if caught >> (signal.SIGUSR1 - 1) & 1:
                handled.append(number)
    return handled


def digest(text: bytes) -> str:
    """Short texts as they are."""
    if len(text) < 400:
        return text.decode(errors="replace")
    return f"{len(text)} bytes, SHA-256 {hashlib.sha256(text).hexdigest()[:16]}"


@contextlib.contextmanager
def server(wrap: Wrap, program: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that is ended, however, in the end."""
    child = subprocess.Popen(
        wrap(program), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=(folder / "said").open("w"), cwd=folder,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def eventually(child: subprocess.Popen[bytes], ready: Callable[[], bool]) -> bool:
    """Waits until a server answers; False when it ends first."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and child.poll() is None:
        if ready():
            return True
        time.sleep(0.05)
    return False


def ended(child: subprocess.Popen[bytes], folder: Path, said: list[str]) -> Answer:
    """A server's status, and what its clients were told."""
    try:
        status = child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        status, said = -1, ["it did not end"]
    errors = (folder / "said").read_text(errors="replace").strip()
    return Answer(status, digest("\n".join([*said, errors]).encode()))


def plain(*words: str) -> Job:
    """A program that ends by itself."""
    return lambda wrap, folder, draw: run(wrap, list(words), folder, None)


def numbers(folder: Path) -> str:
    """A file of 15,000 random numbers."""
    path = folder / "numbers"
    draw = random.Random(1)
    path.write_text("".join(f"{draw.uniform(-1e9, 1e9):.6f}\n" for _ in range(15_000)))
    return str(path)


def counters(folder: Path) -> Job:
    program = [build(folder, "counters.c")]
    return lambda wrap, place, draw: run(wrap, program, place, draw)


def interrupted(wrap: Wrap, folder: Path, draw: random.Random) -> Answer:
    """A busy shell gets SIGINT, often long after its window has closed."""
    loop = ["sh", "-c", "trap 'exit 9' INT; echo on; while :; do :; done"]
    child = subprocess.Popen(
        wrap(loop), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        cwd=folder,
        # A shell's background jobs have SIGINT ignored, which is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert child.stdout is not None
    try:
        first = child.stdout.readline()
        time.sleep(draw.uniform(0, 3))
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return Answer(-1, "it did not end")
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    return Answer(child.returncode, digest(first + rest))


def redis(wrap: Wrap, folder: Path, draw: random.Random) -> Answer:
    """Redis with a thread for input and output, under a client's load; saved at the end."""
    place = str(folder / "redis")
    words = ["redis-server", "--port", "0", "--unixsocket", place, "--io-threads", "2",
             "--save", "", "--appendonly", "yes", "--dir", str(folder)]  # fmt: skip
    client = ["redis-cli", "-s", place]

    def ask(*what: str) -> str:
        done = subprocess.run([*client, *what], capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout + done.stderr

    with server(wrap, words, folder) as child:
        if not eventually(child, lambda: ask("ping") == "PONG\n"):
            return ended(child, folder, ["never ready"])
        load = ["redis-benchmark", "-s", place, "-q", "-n", "2000", "-r", "500", "-P", "8",
                "-t", "set,get,lpush,lpop,sadd,hset,zadd"]  # fmt: skip
        done = subprocess.run(load, capture_output=True, timeout=PATIENCE)
        said = [f"benchmark {done.returncode}"]
        fill = "for i=1,3000 do redis.call('set', 'k'..i, string.rep('x', i % 300)) end"
        said.append(ask("eval", fill, "0"))
        count = "local s=0 for i=1,3000 do s=s+#redis.call('get','k'..i) end return s"
        said += [ask("eval", count, "0"), ask("bgrewriteaof")]
        ask("shutdown", "nosave", "force")
        return ended(child, folder, said)


def memcached(wrap: Wrap, folder: Path, draw: random.Random) -> Answer:
    """Has four threads and some clients at once, and is ended by SIGTERM."""
    place = folder / "memcached"
    words = ["memcached", "-s", str(place), "-t", "4", "-m", "16", "-u", "nobody"]

    def connect() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE)
        made.connect(str(place))
        return made

    def ready() -> bool:
        with contextlib.suppress(OSError), connect():
            return True
        return False

    with server(wrap, words, folder) as child:
        if not eventually(child, ready):
            return ended(child, folder, ["never ready"])
        answers: Counter[bytes] = Counter()
        clients = [connect() for _ in range(8)]
        for number in range(60):
            for at, client in enumerate(clients):
                value = bytes([97 + at]) * (number * 40 % 3000 + 1)
                client.sendall(b"set k%d_%d 0 0 %d\r\n%s\r\n" % (at, number, len(value), value))
            for at, client in enumerate(clients):
                answers[client.recv(100)] += 1
                client.sendall(b"get k%d_%d\r\n" % (at, number))
            for client in clients:
                answer = b""
                while not answer.endswith(b"END\r\n"):
                    piece = client.recv(1 << 16)
                    if not piece:
                        break
                    answer += piece
                answers[hashlib.sha256(answer).digest()] += 1
        for client in clients:
            client.close()
        child.send_signal(signal.SIGTERM)
        return ended(
            child, folder, [hashlib.sha256(repr(sorted(answers.items())).encode()).hexdigest()]
        )


def postgres(folder: Path) -> Job:
    """PostgreSQL with pgbench, as the user postgres, which it demands instead of root."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    shutil.chown(folder, "postgres")
    fresh = folder / "cluster"
    subprocess.run(
        [*as_user, programs / "initdb", "-D", fresh, "-A", "trust", "--no-sync"],
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip

    def job(wrap: Wrap, place: Path, draw: random.Random) -> Answer:
        shutil.chown(place, "postgres")
        data = place / "data"
        subprocess.run(["cp", "-a", fresh, data], check=True)
        words = [str(programs / "postgres"), "-D", str(data), "-k", str(place), "-h", "",
                 "-c", "fsync=off", "-c", "shared_buffers=8MB", "-c", "autovacuum=off"]  # fmt: skip
        there = ["-h", str(place), "-U", "postgres"]

        def ask(program: str, *what: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [programs / program, *there, *what], capture_output=True, text=True,
                timeout=PATIENCE, cwd="/",
            )  # fmt: skip

        with server(lambda inner: [*as_user, *wrap(inner)], words, place) as child:
            if not eventually(child, lambda: ask("pg_isready").returncode == 0):
                return ended(child, place, ["never ready"])
            said = []
            for what in (["-i", "-q"], ["-c", "4", "-j", "2", "-t", "10", "-n"]):
                said.append(f"pgbench {ask('pgbench', *what, 'postgres').returncode}")
            query = (
                "select sum(abalance) = (select sum(delta) from pgbench_history), count(*) "
                "from pgbench_accounts"
            )
            said.append(ask("psql", "-At", "-c", query, "postgres").stdout)
            child.send_signal(signal.SIGINT)
            answer = ended(child, place, said)
            # Its log has times and process numbers.
            return Answer(answer.status, "\n".join(said))

    return job


def jobs(folder: Path) -> dict[str, tuple[int, Callable[[], Job]]]:
    """The programs: what each needs installed is what its name says. Weights of the drawing."""
    script = (
        "let s = 0; for (let r = 0; r < 20; r++) { const a = []; for (let i = 0; i < 5000; i++) "
        "a.push({k: (i * 7919 + r) % 10007, t: 'x'.repeat(i % 50)}); a.sort((p, q) => p.k - q.k); "
        "s = (s * 31 + a[17].k + a.reduce((n, e) => n + e.t.length, 0)) % 1e9 } "
        "console.log(s); process.exitCode = 4"
    )

    def java() -> Job:
        build(folder, "Collect.java")
        return plain("java", "-Xmx24m", "-Xint", "-cp", str(folder), "Collect")

    return {
        "counters": (25, lambda: counters(folder)),
        "sort": (25, lambda: plain("sort", "--parallel=4", "-S", "1M", "-g", numbers(folder))),
        "openmp": (20, lambda: plain(build(folder, "openmp.c", "-fopenmp"))),
        "go": (10, lambda: plain(build(folder, "collect.go"))),
        "interrupted": (6, lambda: interrupted),
        "node": (4, lambda: plain("node", "-e", script)),
        "java": (3, java),
        "redis": (3, lambda: redis),
        "memcached": (3, lambda: memcached),
        "postgres": (1, lambda: postgres(folder)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--qemu", type=Path)
    parser.add_argument(
        "--bare",
        type=lambda name: Path(name).absolute(),
        help="the recorder alone: target/.../pagelab-record",
    )
    parser.add_argument("--programs", help="comma-separated; all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="windows-") as name:
        return try_all(Path(name), arguments)


def try_all(folder: Path, arguments: argparse.Namespace) -> int:
    """Makes the recordings and says how many went well."""
    folder.chmod(0o755)
    known = jobs(folder)
    names = arguments.programs.split(",") if arguments.programs else list(known)
    made: dict[str, tuple[Job, Answer]] = {}
    good: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    for number in range(arguments.runs):
        draw = random.Random(f"{arguments.seed} {number}")
        name = draw.choices(names, [known[each][0] for each in names])[0]
        # Before the program draws anything: how often it does depends on how fast the machine is.
        recorder = Recorder(arguments.qemu, arguments.bare, draw)
        recorder.draw()
        if name not in made:
            without = folder / "without" / name
            without.mkdir(parents=True)
            without.chmod(0o777)
            job = known[name][1]()
            made[name] = job, job(lambda words: words, without, draw)
        job, expected = made[name]
        with tempfile.TemporaryDirectory(dir=folder) as place:
            trace = Path(place) / "trace"
            Path(place).chmod(0o777)
            answer = job(lambda words: recorder.command(words, trace), Path(place), draw)  # noqa: B023
        if answer == expected:
            good[name] += 1
            continue
        bad[name] += 1
        print(f"{name}, seed {arguments.seed}, recording {number}: {shlex.join(recorder.window)}")
        print(f"  without: {expected}\n  recorded: {answer}", flush=True)
    for name in names:
        if good[name] + bad[name]:
            print(f"{name}: {good[name]} of {good[name] + bad[name]} as without recording")
    total = good.total() + bad.total()
    print(f"all: {good.total()} of {total} recordings changed nothing")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
