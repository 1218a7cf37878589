"""The twelve programs of `pagelab linux agree --suite`, each of a few seconds in a guest.

What they read is made in a folder; what they write is in another. Those with clients talk through
a socket there.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pagelab.agreeing.program import Program, alike
from pagelab.errors import PagelabError, unknown
from pagelab.measuring import probe
from pagelab.measuring import suite as measured

# Both workers are there while the first one works, and neither at the end: nothing depends on who
# is faster.
_WORKERS = """
import os
table = {key: str(key) for key in range(15_000)}
workers = []
for worker in range(2):
    gate, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(gate, 1)
        for key in range(worker, 15_000, 4):
            table[key] += "x"
        os._exit(0)
    workers.append((pid, go))
for pid, go in workers:
    os.write(go, b"1")
    os.waitpid(pid, 0)
table = {key: value + "y" for key, value in table.items()}
print(len(table))
"""

_PERL = """
my %found;
$found{"key " . ($_ * 7919) % 40000} .= "value $_" for 1 .. 10000;
print scalar(keys %found), "\\n";
"""

# The socket is there a while after the server has started.
_WAIT = "select(undef, undef, undef, 0.1) until -S $ARGV[0]"

_MEMCACHED = """
use IO::Socket::UNIX;
my $link = IO::Socket::UNIX->new("memcached.sock");
my $value = "x" x 1000;
for my $key (1 .. 1000) { print $link "set $key 0 0 1000\\r\\n$value\\r\\n"; <$link>; }
for my $key (1 .. 1000) {
    print $link "get ", $key * 7919 % 1000 + 1, "\\r\\n";
    while (<$link>) { last if /^END/; }
}
print $link "shutdown\\r\\n";
<$link>;
"""

_NODE = """
const found = new Map();
for (let i = 0; i < 10000; i++) found.set('key ' + (i * 7919) % 10000, {value: i, next: null});
let sum = 0;
for (const [, one] of found) sum += one.value;
console.log(sum);
"""

_JAVA = """
import java.util.HashMap;
class Words {
    public static void main(String[] arguments) {
        HashMap<String, Integer> found = new HashMap<>();
        for (int i = 0; i < 3_000; i++)
            found.merge("key " + (i * 7919L) % 2_000, 1, Integer::sum);
        System.out.println(found.size());
    }
}
"""

_POSTGRES = """
create table t as select i as k, (i * 7919) % 2000 as v, 'row ' || i as w \
from generate_series(1, 2000) i;
create index on t(v);
select count(*) from t a join t b on b.v = a.k;
"""

# A snapshot of 2,000 keys that takes 4 s at least, while others are written. Nothing looks at the
# clock meanwhile: the server sleeps until the snapshot is done.
_REDIS = """
debug populate 2000 key 2000
bgsave
{sets}
debug sleep 12
shutdown nosave
"""
_REDIS_SERVER = (
    "redis-server --port 0 --unixsocket redis.sock --save '' --enable-debug-command yes "
    "--disable-thp no --rdb-key-save-delay 2000 --appendonly no"
)


def programs(folder: Path, only: Sequence[str] | None) -> tuple[list[Program], list[str]]:
    """Programs, and names of those that are not installed.

    Raises:
        UsageError: there is no program of a name that is asked for.

    """
    inputs = folder / "inputs"
    inputs.mkdir()
    variables = alike(
        {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            # Tables that hash at random have other sizes each time.
            "PYTHONHASHSEED": "0",
            "PERL_HASH_SEED": "0",
            # jemalloc has arenas by the number of processors, and gives memory back by the clock.
            "MALLOC_CONF": "narenas:1,dirty_decay_ms:-1,muzzy_decay_ms:-1",
        }
    )
    for name in only or ():
        if name not in _MAKERS:
            raise unknown("program", name, list(_MAKERS))
    made, missing = [], []
    for name, make in _MAKERS.items():
        if only and name not in only:
            continue
        try:
            command, before = make(inputs)
        except PagelabError:
            missing.append(name)
            continue
        made.append(Program(name, command, variables, before, folder / "run"))
    return made, missing


def _find(name: str, *folders: str) -> str:
    """The path of a program that is installed."""
    places = ["/usr/bin", "/usr/local/bin", *folders]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise PagelabError(f"{name} is not installed")
    return found


def _written(file: Path, text: str) -> str:
    file.write_text(text, encoding="ascii")
    return str(file)


_Made = tuple[list[str], str]


def _alone(*command: str) -> _Made:
    return list(command), ""


def _random_updates(inputs: Path) -> _Made:
    # Some file systems have large files lie at 2 MiB; the guest's has not, nor has one in memory.
    program = shutil.copy(probe.find(), inputs)
    size = ["--mib", "16", "--steps", "200000"]
    return _alone(str(program), "program", "random-updates", *size)


def _sort(inputs: Path) -> _Made:
    lines = "".join(f"{number * 7919 % 60013}\n" for number in range(10_000))
    numbers = _written(inputs / "numbers", lines)
    return _alone(_find("sort"), "-n", "--parallel=1", "-S", "8M", numbers)


def _perl(inputs: Path) -> _Made:
    return _alone(_find("perl"), _written(inputs / "hash.pl", _PERL))


def _xz(inputs: Path) -> _Made:
    text = "".join(f"{number * number % 1_000_003} {number}\n" for number in range(10_000))
    return _alone(_find("xz"), "-2", "-T1", "-k", "-c", _written(inputs / "text", text))


def _gcc(inputs: Path) -> _Made:
    command = measured.compiler()
    if not Path(command).is_absolute():
        raise PagelabError("gcc is not installed")
    source = _written(inputs / "functions.c", measured.functions(3))
    return _alone(command, "-quiet", "-O2", source, "-o", "/dev/null")


def _sqlite(inputs: Path) -> _Made:
    query = _written(inputs / "query.sql", measured.query(3_000))
    return _alone(_find("sqlite3"), "-batch", ":memory:", f".read {query}")


def _python(inputs: Path) -> _Made:
    return _alone(_find("python3"), "-S", _written(inputs / "workers.py", _WORKERS))


def _node(inputs: Path) -> _Made:
    # Spaces are by the size of the machine's memory otherwise, which is not the guest's.
    same = ["--predictable", "--single-threaded", "--random-seed=1", "--max-old-space-size=256"]
    return _alone(_find("node"), *same, _written(inputs / "words.js", _NODE))


def _java(inputs: Path) -> _Made:
    java, javac = _find("java"), _find("javac")
    source = _written(inputs / "Words.java", _JAVA)
    subprocess.run([javac, "-d", str(inputs), source], check=True)
    one = ["-Xint", "-XX:+UseSerialGC", "-XX:ActiveProcessorCount=1", "-Xmx32m"]
    return _alone(java, *one, "-cp", str(inputs), "Words")


def _redis(inputs: Path) -> _Made:
    server = [_find("redis-server"), *shlex.split(_REDIS_SERVER)[1:]]
    sets = "\n".join(f"set key:{number * 7919 % 2000} {'y' * 1500}" for number in range(400))
    commands = _written(inputs / "redis.txt", _REDIS.format(sets=sets))
    client = f"{_find('redis-cli')} -s redis.sock <{shlex.quote(commands)}"
    return _with_client(inputs / "redis.sh", server, "redis.sock", client)


def _memcached(inputs: Path) -> _Made:
    of_it = ["-t", "1", "-U", "0", "-A", "-m", "64", "-u", "root", "-s", "memcached.sock"]
    client = shlex.join([_find("perl"), _written(inputs / "load.pl", _MEMCACHED)])
    server = [_find("memcached"), *of_it]
    return _with_client(inputs / "memcached.sh", server, "memcached.sock", client)


def _with_client(file: Path, server: list[str], socket: str, client: str) -> _Made:
    """A server, and a client that is started when there is its socket, and ends it."""
    waits = shlex.join([_find("perl"), "-e", _WAIT, socket])
    script = f"{shlex.join(server)} &\n{waits}\n{client}\nwait\n"
    return _alone(_find("dash", "/bin"), _written(file, script))


def _postgres(inputs: Path) -> _Made:
    """PostgreSQL as one process, by a user that may run it."""
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    server, initdb = _find("postgres", *folders), _find("initdb", *folders)
    nobody = [_find("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups"]
    data = inputs / "data"
    data.mkdir(mode=0o700)
    shutil.chown(data, 65534, 65534)
    inputs.parent.chmod(0o755)
    made = [*nobody, initdb, "--no-sync", "-E", "SQL_ASCII", "-D", str(data)]
    subprocess.run(made, check=True, capture_output=True)
    query = _written(inputs / "postgres.sql", _POSTGRES)
    small = ["-c", "shared_buffers=8MB", "-c", "huge_pages=off", "-c", "fsync=off"]
    command = shlex.join([*nobody, server, "--single", "-j", *small, "-D", "data", "postgres"])
    script = _written(inputs / "postgres.sh", f"exec {command} <{shlex.quote(query)}\n")
    return [_find("dash", "/bin"), script], f"cp -a {shlex.quote(str(data))} data"


_MAKERS: Mapping[str, Callable[[Path], _Made]] = {
    "random-updates": _random_updates,
    "sort": _sort,
    "perl": _perl,
    "xz": _xz,
    "gcc": _gcc,
    "sqlite3": _sqlite,
    "python": _python,
    "redis": _redis,
    "memcached": _memcached,
    "postgres": _postgres,
    "node": _node,
    "java": _java,
}
