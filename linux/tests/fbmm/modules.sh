#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Loading, mounting and running out of memory file systems: what must fail says
# so and harms nothing, and the machine's memory is as it was when all is over.

. "$(dirname "$0")/result.sh"

mfs() # NAME: the module's file
{
	echo "$MANAGERS/$1/$1.ko"
}

# After memory was short, what is free is in pieces.
whole_blocks()
{
	echo 3 >/proc/sys/vm/drop_caches
	echo 1 >/proc/sys/vm/compact_memory
}

# The first load, mount and program leave caches behind that stay.
insmod "$(mfs mfs)"
insmod "$(mfs basicmfs)"
mounted basicmfs size=64M /run/a
"$FBMM_RUN" /run/a python3 -c 'import ctypes, mmap, re; bytearray(16 << 20)'
umount /run/a
before=$(free_kb)

result "basicmfs wants a size" refused mounted basicmfs "" /run/a
result "a size that is none" refused mounted basicmfs size=lots /run/a
result "an option that does not exist" refused mounted basicmfs size=1M,colour=red /run/a
result "more than the machine has" refused mounted basicmfs size=100G /run/a
result "and nothing is lost by that" near "$before"

result "mount" mounted basicmfs size=64M /run/a
result "mount a second one" mounted basicmfs size=64M /run/b
result "unload a mounted one" refused rmmod basicmfs
result "unload the library" refused rmmod mfs

"$FBMM_RUN" /run/a sleep 1000 &
sleeper=$!
result "a process has it" soon grep -q '^/run/a$' /proc/$sleeper/fbmm_mount_dir
result "unmount what a process has" refused umount /run/a
kill $sleeper
wait $sleeper 2>/dev/null
result "a default is not any directory" refused "$FBMM_RUN" /tmp true
result "nor one that is not there" refused "$FBMM_RUN" /run/nowhere true
result "an empty one is the kernel's" "$FBMM_RUN" "" true
chmod 700 /run/a
result "who has chosen it may drop the right to" "$FBMM_RUN" /run/a \
	setpriv --reuid 65534 --regid 65534 --clear-groups \
	sh -c 'grep -q ^/run/a /proc/self/fbmm_mount_dir && python3 -c "bytearray(8 << 20)"'
result "others may not choose it" refused setpriv --reuid 65534 --clear-groups \
	"$FBMM_RUN" /run/a true
chmod 1777 /run/a

# 16384 pages are in each; programs start, and what takes too much gets SIGBUS.
cat >/run/hog.py <<'END'
import mmap, signal, sys
memory = mmap.mmap(-1, 128 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(memory), 4096):
    memory[page] = 1
END
"$FBMM_RUN" /run/a python3 /run/hog.py
result "a process that takes more than there is gets SIGBUS" [ $? = 135 ]
result "and the next one has all again" "$FBMM_RUN" /run/a python3 -c 'bytearray(32 << 20)'

cat >/run/zeros.py <<'END'
import glob, mmap
def used():
    return sum(int(open(name).read()) for name in glob.glob("/sys/fs/basicmfs/*/used"))
memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
before = used()
assert not any(memory[page] for page in range(0, len(memory), 4096))
assert used() - before < 256, used() - before
for page in range(0, len(memory), 8192):
    memory[page] = 1
assert 2048 <= used() - before < 2048 + 256, used() - before
assert [memory[page] for page in range(0, len(memory), 4096)] == [1, 0] * 2048
END
result "who only reads takes no pages" "$FBMM_RUN" /run/a python3 /run/zeros.py

# A file that a program makes for one data structure
cat >/run/control.py <<'END'
import errno, mmap, os
fd = os.open("/run/a/table", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8 << 20)
memory = mmap.mmap(fd, 8 << 20)
memory[5 << 20] = 7
if os.fork() == 0:
    memory[0] = 9		# MAP_SHARED: the parent sees it
    os._exit(0)
os.wait()
assert memory[0] == 9 and memory[5 << 20] == 7
private = mmap.mmap(fd, 8 << 20, flags=mmap.MAP_PRIVATE)
assert private[5 << 20] == 7 and private[1 << 20] == 0
private[5 << 20] = private[6 << 20] = 8
assert memory[5 << 20] == 7 and memory[6 << 20] == 0
memory[1 << 20] = 6		# not written there: still the file's page
assert private[1 << 20] == 6 and private[5 << 20] == private[6 << 20] == 8
try:
    os.posix_fallocate(fd, 0, 1 << 30)
    assert False
except OSError as error:
    assert error.errno == errno.ENOSPC, error
os.ftruncate(fd, 4 << 20)
os.ftruncate(fd, 8 << 20)
assert memory[5 << 20] == 0 and memory[0] == 9
os.unlink("/run/a/table")
END
result "a program maps a file of its own" python3 /run/control.py

result "unmount" umount /run/a
result "unmount the second" umount /run/b
result "unload" rmmod basicmfs
result "nothing is lost" near "$before"

# A pool of three quarters of what is free, which a process then asks for
insmod "$(mfs basicmfs)"
mkdir -p /run/a
hold=$(($(free_kb) / 4 * 3))
result "a pool that may shrink" mounted basicmfs size=${hold}K,shrink /run/a
result "gives way under memory pressure" python3 -c "
memory = bytearray($hold << 9)
available = [line for line in open('/proc/mounts') if 'basicmfs' in line][0]
assert 'shrink' in available, available"
result "and is there again afterwards" "$FBMM_RUN" /run/a python3 -c 'bytearray(64 << 20)'
result "unmount it" umount /run/a
result "unload it" rmmod basicmfs

# weights
insmod "$(mfs bwmfs)"
result "bwmfs wants weights" refused mounted bwmfs "" /run/a
result "weights that are all 0" refused mounted bwmfs weights=0:0 /run/a
result "a weight for a node that is not there" refused mounted bwmfs weights=1:1:1 /run/a
result "mount with weights" mounted bwmfs weights=3:2 /run/a
weights=$(echo /sys/fs/bwmfs/*/weights)
result "weights of 0 in sysfs" refused sh -c "echo 0:0 >$weights"
for want in 1:1 2:1 3:1 3:2 2:3 1:0 0:1; do
	echo $want >"$weights"
	result "placement is $want to the page" "$FBMM_RUN" "" python3 /dev/stdin "$want" <<'END'
import mmap, os, re, sys
weights = [int(word) for word in sys.argv[1].split(":")]
pages = 120 * sum(weights)
fd = os.open("/run/a/table", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, pages * 4096)
memory = mmap.mmap(fd, pages * 4096)
for page in range(pages):
    memory[page * 4096] = 1
line = next(line for line in open("/proc/self/numa_maps") if "/run/a/table" in line)
placed = [int(dict(re.findall(r"N(\d+)=(\d+)", line)).get(str(node), 0)) for node in (0, 1)]
os.unlink("/run/a/table")
assert placed == [120 * weight for weight in weights], (placed, weights)
END
done
result "unmount bwmfs" umount /run/a
whole_blocks
result "mount with huge pages" mounted bwmfs weights=2:1,huge /run/a
result "memory is mapped by huge pages, in a child that reads it, too" "$FBMM_RUN" /run/a python3 -c '
import mmap, os, re
def check():
    smaps = open("/proc/self/smaps").read()
    huge = sum(map(int, re.findall(r"ShmemPmdMapped: +(\d+)", smaps)))
    assert huge >= 24 << 11, huge
memory = mmap.mmap(-1, 25 << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
check()
if os.fork() == 0:			# which has none mapped, and reads first
    assert all(memory[at] == 1 for at in range(0, len(memory), 2 << 20))
    check()
    os._exit(0)
assert os.wait()[1] == 0, "a child"'
result "unmount it" umount /run/a
result "unload bwmfs" rmmod bwmfs

insmod "$(mfs tieredmfs)"
result "tieredmfs wants two pools" refused mounted tieredmfs local=16M /run/a
result "on two nodes" refused mounted tieredmfs local=1M,remote=1M,remote_node=0 /run/a
node=$(awk '/MemTotal/ { print $4 }' /sys/devices/system/node/node1/meminfo)
result "more than a node has" refused mounted tieredmfs "local=16M,remote=${node}K" /run/a
result "and nothing is lost by that, either" near "$before"
result "tieredmfs is mounted" mounted tieredmfs local=16M,remote=64M /run/a
tier=$(echo /sys/fs/tieredmfs/*)
echo 10 >"$tier/interval"
cat >/run/tiers.py <<'END'
import mmap, sys, time
memory = mmap.mmap(-1, 48 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(memory), 4096):
    memory[page:page + 4] = page.to_bytes(4, "little")
hot = range(40 << 20, 44 << 20, 4096)		# first touched when the local tier was full
end = time.monotonic() + 60
while time.monotonic() < end:
    for page in hot:
        memory[page + 8] = 1
    if int(open(sys.argv[1] + "/promoted").read()) >= len(hot) // 4:
        break
assert all(memory[page:page + 4] == page.to_bytes(4, "little")
           for page in range(0, len(memory), 4096)), "contents"
assert int(open(sys.argv[1] + "/demoted").read()) > 0, "nothing was demoted"
assert int(open(sys.argv[1] + "/promoted").read()) > 0, "nothing was promoted"
END
result "cold pages are demoted, hot ones promoted, contents stay" \
	"$FBMM_RUN" /run/a python3 /run/tiers.py "$tier"
grep -H . "$tier"/* | sed 's/^/# /'
result "unmount tieredmfs" umount /run/a

whole_blocks
result "with huge pages, it is mounted" mounted tieredmfs local=16M,remote=64M,huge /run/a
tier=$(echo /sys/fs/tieredmfs/*)
cat >/run/pieces.py <<'END'
import ctypes, mmap, re, sys, time
from pathlib import Path
PIECE, PAGE = 2 << 20, 4096
tier = Path(sys.argv[1])

def moving(interval, share):
    (tier / "interval").write_text(str(interval))
    (tier / "share").write_text(str(share))

moving(2000, 1)		# hardly at all
memory = mmap.mmap(-1, 50 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(memory), PAGE):
    memory[page:page + 4] = page.to_bytes(4, "little")

start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
first = -start % PIECE
pieces = range(first, first + 24 * PIECE, PIECE)

def huge(pieces_wanted):		# what was moved is mapped again when it is touched
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for piece in pieces:
            memory[piece]
        mapped = re.findall(r"ShmemPmdMapped: +(\d+)", Path("/proc/self/smaps").read_text())
        if sum(map(int, mapped)) >= pieces_wanted << 11:
            return True
    return False

pagemap = open("/proc/self/pagemap", "rb", buffering=0)
zones = re.findall(r"Node 1, zone.*?start_pfn: +(\d+)", Path("/proc/zoneinfo").read_text(), re.S)
second = min(int(first) for first in zones if int(first))

def node(page):
    pagemap.seek((start + page) // PAGE * 8)
    entry = int.from_bytes(pagemap.read(8), "little")
    if not entry >> 63:
        return None			# on its way
    return int(entry & (1 << 55) - 1 >= second)

def pages(piece):
    return range(piece, piece + PIECE, PAGE)

assert huge(24), "not mapped by huge pages"
hot = [piece for piece in pieces if node(piece) == 1][-2:]
assert len(hot) == 2, "more is local than there is room for"
moving(10, 25)
end = time.monotonic() + 60
# A look takes much longer than a touch: whoever looks at all pages leaves them cold.
while not all(node(piece) == 0 for piece in hot):
    assert time.monotonic() < end, "hot pieces are not local"
    for piece in hot:
        for page in pages(piece):
            memory[page + 8] = 1
moving(2000, 1)
for piece in hot:
    where = {node(page) for page in pages(piece) if memory[page + 8] == 1}
    assert where == {0}, where
for name in ("promoted", "demoted"):
    moved = int((tier / name).read_text())
    assert moved >= len(hot) * PIECE // PAGE, (name, moved)
assert all(memory[page:page + 4] == page.to_bytes(4, "little")
           for page in range(0, len(memory), PAGE)), "contents"
assert huge(24), "taken apart"
# A page of each piece goes: what is left becomes base pages.
for piece in pieces:
    memory.madvise(mmap.MADV_DONTNEED, piece + 5 * PAGE, PAGE)
    assert memory[piece + 5 * PAGE] == 0, "a page that was given back"
    after = piece + 6 * PAGE
    assert memory[after:after + 4] == after.to_bytes(4, "little"), "and the one after it"
END
result "pieces of 2 MB are demoted and promoted, contents stay" \
	"$FBMM_RUN" /run/a python3 /run/pieces.py "$tier"
cat >/run/whole.py <<'END'
import sys, time
from pathlib import Path
tier = Path(sys.argv[1])
(tier / "interval").write_text("10")
(tier / "share").write_text("25")
read = lambda name: int((tier / name).read_text())
end = time.monotonic() + 60
while read("local_pieces") + read("remote_pieces") < 36 and time.monotonic() < end:
    time.sleep(0.1)
# One of each tier may stay apart. What the thread had when the process ended, one or two perhaps, is
# in no count: it is taken anew from the kernel when it is wanted.
assert read("local_pieces") + read("remote_pieces") >= 36, "pieces"
assert read("local_pieces") >= 5 and read("remote_pieces") >= 29, "pieces of a tier"
assert read("local_free") >= 12 << 8 and read("remote_free") >= 60 << 8, "free"
END
result "base pages become pieces again, and all are free" python3 /run/whole.py "$tier"
grep -H . "$tier"/* | sed 's/^/# /'
result "unmount it" umount /run/a
result "unload tieredmfs" rmmod tieredmfs

insmod "$(mfs contigmfs)"
whole_blocks
result "contigmfs is mounted" mounted contigmfs "" /run/a
cat >/run/ranges.py <<'END'
import ctypes, mmap, glob, re
memory = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
# Mapped before it is touched
smaps = open("/proc/self/smaps").read()
rss = [int(kb) for kb in re.findall(r"^Rss: +(\d+) kB", smaps, re.M)]
assert max(rss) >= 32 << 10, max(rss)
table = {}
for line in open(glob.glob("/sys/kernel/debug/contigmfs/*/ranges")[0]):
    inode, page, pages, frame = map(int, line.split())
    table.setdefault(inode, []).append((page, pages, frame))
# Against what the page tables say
checked = 0
pagemap = open("/proc/self/pagemap", "rb", buffering=0)
for line in open("/proc/self/maps"):
    found = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ (\d+) +/run/a/", line)
    if not found:
        continue
    start, end, offset = (int(word, 16) for word in found.groups()[:3])
    for page, pages, frame in table[int(found.group(4))]:
        for index in range(page, page + pages):
            address = start + index * 4096 - offset
            if start <= address < end:
                pagemap.seek(address // 4096 * 8)
                entry = int.from_bytes(pagemap.read(8), "little")
                if entry >> 63:
                    assert entry & (1 << 55) - 1 == frame + index - page
                    checked += 1
assert checked >= 8192, checked
longest = max(pages for ranges in table.values() for _, pages, _ in ranges)
assert longest >= 2048, longest
# Pieces longer than the largest block, 1024 pages
mount = glob.glob("/sys/fs/contigmfs/*/")[0]
pieces = [int(number) for number in open(mount + "pieces").read().split()]
assert sum(pieces[11:]) > 0, pieces
# A page fault has no more than a block.
used = int(open(mount + "used").read())
sparse = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
sparse[20 << 20] = 1
took = int(open(mount + "used").read()) - used
assert 1 <= took <= 1024 + 16, took
# What is to be locked when it is touched is not filled before; a touch gives a block.
libc = ctypes.CDLL(None, use_errno=True)
assert libc.mlockall(2 | 4) == 0, ctypes.get_errno()    # MCL_FUTURE, MCL_ONFAULT
used = int(open(mount + "used").read())
lazy = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
took = int(open(mount + "used").read()) - used
assert took < 16, took
lazy[20 << 20] = 1
took = int(open(mount + "used").read()) - used
assert 1024 <= took <= 1024 + 16, took
END
result "contigmfs maps all at once, in ranges that are as its table says" \
	"$FBMM_RUN" /run/a python3 /run/ranges.py
result "unmount contigmfs" umount /run/a
result "unload contigmfs" rmmod contigmfs
result "unload the library at last" rmmod mfs
result "all memory is back" near "$before"

echo "1..$count"
[ $failed = 0 ]
