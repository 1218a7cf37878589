/* SPDX-License-Identifier: GPL-2.0 */
/* What hostile.c has devices read and write: io_uring's fixed pages, a disk. */
#ifndef _HOSTILE_H
#define _HOSTILE_H

#include "stamps.h"

#include <linux/io_uring.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#define DISK		"/run/hostile-disk"
#define BLOCKS		2048	/* of the disk, that are only read; one for each owner follows */

static int disk = -1;
/* Memory comes from a memory file system. */
static bool managed;
/* When to end if everything was done, and when to end anyway */
static time_t until, latest;
/* Of the thread that does the rest, the writing and the reading one, and that of the disk */
static unsigned int seeds[4];

static unsigned int pick(int thread, unsigned int below)
{
	return rand_r(&seeds[thread]) / 7 % below;
}

/* A small configuration of the kernel has no io_uring. */
static bool has_rings(void)
{
	static int has = -1;

	if (has < 0)
		has = syscall(SYS_io_uring_setup, 0, NULL) >= 0 || errno != ENOSYS;
	return has;
}

/* Userfaultfd refuses the memory of a memory file system. */
static bool everything_done(void)
{
	return all->forks && all->killed && all->moved && all->direct && all->spliced &&
	       (all->fixed || !has_rings()) && all->poked && all->alike && all->traced &&
	       (all->guarded || managed);
}

static bool over(void)
{
	const time_t now = time(NULL);

	return (now >= until && everything_done()) || now >= latest ||
	       atomic_load(&all->failures) ||
	       (self->parent && getppid() != self->parent->pid);
}

/* A ring with one buffer, the fixed pages */
static struct {
	struct io_uring_params params;
	struct io_uring_sqe *entries;
	char *memory, *buffer;
	int fd;
	bool full;
} ring = { .fd = -1 };

static void ring_open(void)
{
	memset(&ring.params, 0, sizeof(ring.params));
	ring.fd = syscall(SYS_io_uring_setup, 2, &ring.params);
	if (ring.fd < 0)
		return;
	fcntl(ring.fd, F_SETFD, FD_CLOEXEC);
	ring.memory = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			   IORING_OFF_SQ_RING);
	ring.entries = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
			    IORING_OFF_SQES);
	if (ring.memory == MAP_FAILED || ring.entries == MAP_FAILED)
		wrong("io_uring: %s", strerror(errno));
}

static void ring_close(void)
{
	if (ring.fd < 0)
		return;
	munmap(ring.memory, 2 * page_size);
	munmap(ring.entries, page_size);
	close(ring.fd);
	ring.fd = -1;
	ring.full = false;
}

static uint32_t *ring_at(uint32_t offset)
{
	return (uint32_t *)(ring.memory + offset);
}

static void ring_do(int opcode, int fd, size_t page)
{
	const uint32_t tail = *ring_at(ring.params.sq_off.tail);
	const uint32_t head = *ring_at(ring.params.cq_off.head);
	const struct io_uring_cqe *event =
		(void *)(ring.memory + ring.params.cq_off.cqes);

	memset(ring.entries, 0, sizeof(*ring.entries));
	ring.entries->opcode = opcode;
	ring.entries->fd = fd;
	ring.entries->addr = (uintptr_t)ring.buffer + page * page_size;
	ring.entries->len = page_size;
	ring_at(ring.params.sq_off.array)[tail & *ring_at(ring.params.sq_off.ring_mask)] = 0;
	__atomic_store_n(ring_at(ring.params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		wrong("io_uring_enter: %s", strerror(errno));
	event += head & *ring_at(ring.params.cq_off.ring_mask);
	if (event->res != (int)page_size)
		wrong("io_uring: %d", event->res);
	__atomic_store_n(ring_at(ring.params.cq_off.head), head + 1, __ATOMIC_RELEASE);
}

/* Fixed pages are the same for the device and the process, wherever it moves them. */
static void use_fixed(void)
{
	const size_t at = pick(0, LOOSE - FIXED), page = FIXED + at;
	struct iovec part = { .iov_len = (LOOSE - FIXED) * page_size };
	uint64_t words[512];
	uint64_t stamp;
	int ends[2], i;

	if (ring.fd < 0)
		return;
	if (!ring.full) {
		for (i = FIXED; i < LOOSE; i++)
			write_page(self, i, store);
		ring.buffer = page_at(self, atomic_load(&self->moves), FIXED);
		part.iov_base = ring.buffer;
		ring.full = !syscall(SYS_io_uring_register, ring.fd,
				     IORING_REGISTER_BUFFERS, &part, 1);
		return;
	}
	if (pick(0, 12) == 0) {
		syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
		ring.full = false;
		return;
	}
	if (pipe2(ends, O_CLOEXEC))
		wrong("pipe: %s", strerror(errno));
	if (pick(0, 2)) {
		write_page(self, page, store);
		ring_do(IORING_OP_WRITE_FIXED, ends[1], at);
		if (read(ends[0], words, sizeof(words)) != (ssize_t)sizeof(words))
			wrong("read from a pipe: %s", strerror(errno));
		for (i = 0; i < WORDS; i++)
			words[i] = words[i * STRIDE];
		check_words(self, page, words, atomic_load(&self->done[page]),
			    atomic_load(&self->done[page]), false, "by io_uring");
	} else {
		const uint32_t next = atomic_load(&self->begun[page]) + 1;

		stamp = make_stamp(self, page, next);
		if (write(ends[1], sheet(stamp), page_size) != (ssize_t)page_size)
			wrong("write to a pipe: %s", strerror(errno));
		atomic_store(&self->begun[page], next);
		ring_do(IORING_OP_READ_FIXED, ends[0], at);
		atomic_store(&self->done[page], next);
		check_page(self, page, "read by io_uring");
	}
	close(ends[0]);
	close(ends[1]);
	atomic_fetch_add(&all->fixed, 1);
}

/* The disk: what it has, and where a process may write */

static uint64_t on_disk(unsigned int block)
{
	return 0xd15cull << 48 | block;
}

static void disk_make(void)
{
	const int control = open("/dev/loop-control", O_RDWR);
	const int file = open(DISK, O_RDWR | O_CREAT, 0600);
	char path[32];
	int number, device;
	unsigned int block;

	number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	if (number < 0 || file < 0)
		return;
	for (block = 0; block < BLOCKS; block++)
		if (write(file, sheet(on_disk(block)), page_size) != (ssize_t)page_size)
			fail(DISK);
	if (ftruncate(file, (off_t)(BLOCKS + OWNERS) * page_size))
		fail(DISK);
	snprintf(path, sizeof(path), "/dev/loop%d", number);
	device = open(path, O_RDWR);
	if (device < 0 || ioctl(device, LOOP_SET_FD, file))
		return;
	disk = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	close(control);
	close(file);
	close(device);
}

static void read_direct(unsigned int moves)
{
	const size_t nr = 1 + pick(3, 8), page = DIRECT + pick(3, PAGES - DIRECT - nr);
	const unsigned int block = pick(3, BLOCKS - nr);
	volatile uint64_t *words;
	volatile uint64_t have;
	volatile size_t i;
	ssize_t got;

	got = pread(disk, page_at(self, moves, page), nr * page_size,
		    (off_t)block * page_size);
	for (i = 0; i < nr; i++) {
		do {
			if (atomic_load(&self->moves) != moves || got != (ssize_t)(nr * page_size))
				return;
			words = (volatile uint64_t *)page_at(self, moves, page + i);
			have = 0;
			if (!sigsetjmp(retry, 0)) {
				armed = 1;
				have = words[STRIDE * pick(3, WORDS)];
			}
			armed = 0;
			if (!have)
				sched_yield();
		} while (!have && !over());
		if (have && have != on_disk(block + i) && atomic_load(&self->moves) == moves)
			wrong("page %zu was read from block %zu of the disk, and has %#llx", page + i,
			      block + i, (long long)have);
	}
	atomic_fetch_add(&all->direct, 1);
}

static void write_direct(unsigned int moves)
{
	static uint64_t page[512] __attribute__((aligned(4096)));
	const off_t at = (off_t)(BLOCKS + self->owner) * page_size;
	const size_t from = pick(3, FIXED);
	const uint32_t done = atomic_load(&self->done[from]);
	uint64_t words[WORDS];
	int i;

	if (pwrite(disk, page_at(self, moves, from), page_size, at) != (ssize_t)page_size ||
	    atomic_load(&self->moves) != moves)
		return;
	if (pread(disk, page, page_size, at) != (ssize_t)page_size)
		wrong("the disk: %s", strerror(errno));
	for (i = 0; i < WORDS; i++)
		words[i] = page[i * STRIDE];
	check_words(self, from, words, done, atomic_load(&self->begun[from]), false,
		    "on the disk");
	atomic_fetch_add(&all->direct, 1);
}

#endif /* _HOSTILE_H */
