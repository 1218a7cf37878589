/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls that keep a page by its place in memory after they have returned, or while
 * they wait: what they read later is what is in the page then, whoever wrote it.
 */
#ifndef _FBMM_HOLDERS_H
#define _FBMM_HOLDERS_H

#include "lab.h"

#include <linux/fs.h>
#include <linux/if_alg.h>
#include <linux/io_uring.h>
#include <linux/loop.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

struct holder {
	const char *name;
	/* Make what is inherited by the processes; false if that cannot be had here. */
	bool (*open)(void);
	/* In the process that has the page; or, with @outside, by another. */
	void (*hold)(pid_t pid, char *page);
	bool outside;
	/* What is in the page now, for who opened this. */
	void (*held)(char *copy);
	void (*close)(void);
	/* The process cannot end before the call does. */
	bool lasts;
};

/* For any of them: the ends of a pipe or of sockets, the ring, a device */
static int ends[2], ring, device;
/* Where the page is in its process */
static char *held_at;

static void all(ssize_t done, const char *what)
{
	if (done != (ssize_t)page_size)
		fail(what);
}

static void close_ends(void)
{
	close(ends[0]);
	close(ends[1]);
}

/* vmsplice() */

static bool pipe_open(void)
{
	return !pipe(ends);
}

static void pipe_hold(pid_t pid, char *page)
{
	struct iovec part = { page, page_size };

	(void)pid;
	all(vmsplice(ends[1], &part, 1, 0), "vmsplice");
}

static void pipe_held(char *copy)
{
	all(read(ends[0], copy, page_size), "read from the pipe");
}

/* And on from there, to a socket of any kind */

static void pass_on(char *page, int to)
{
	struct iovec part = { page, page_size };
	int between[2];

	if (pipe(between))
		fail("pipe");
	all(vmsplice(between[1], &part, 1, 0), "vmsplice");
	all(splice(between[0], NULL, to, NULL, page_size, 0), "splice");
	close(between[0]);
	close(between[1]);
}

static bool socket_open(void)
{
	return !socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
}

static void socket_hold(pid_t pid, char *page)
{
	(void)pid;
	pass_on(page, ends[1]);
}

static void socket_held(char *copy)
{
	all(recv(ends[0], copy, page_size, MSG_WAITALL), "recv");
}

/* A cipher that changes nothing, and works when its result is read */
static bool cipher_open(void)
{
	const struct sockaddr_alg name = {
		.salg_family = AF_ALG,
		.salg_type = "skcipher",
		.salg_name = "ecb(cipher_null)",
	};
	char control[CMSG_SPACE(sizeof(uint32_t))] = "";
	struct msghdr message = {
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *operation = CMSG_FIRSTHDR(&message);
	const uint32_t encrypt = ALG_OP_ENCRYPT;

	ends[0] = socket(AF_ALG, SOCK_SEQPACKET, 0);
	if (ends[0] < 0)
		return false;
	if (bind(ends[0], (const struct sockaddr *)&name, sizeof(name))) {
		close(ends[0]);
		return false;
	}
	ends[1] = accept(ends[0], NULL, NULL);
	operation->cmsg_level = SOL_ALG;
	operation->cmsg_type = ALG_SET_OP;
	operation->cmsg_len = CMSG_LEN(sizeof(encrypt));
	memcpy(CMSG_DATA(operation), &encrypt, sizeof(encrypt));
	if (ends[1] < 0 || sendmsg(ends[1], &message, MSG_MORE) < 0)
		fail("AF_ALG");
	return true;
}

static void cipher_held(char *copy)
{
	all(read(ends[1], copy, page_size), "read from AF_ALG");
}

/*
 * process_vm_readv() by a process whose own memory is missing: the call waits, and
 * has the other one's page meanwhile.
 */

static int reader_said[2], reader_told[2];
static pid_t reader;

struct remote_read {
	pid_t pid;
	char *from, *to;
};

static void *read_remote(void *arg)
{
	const struct remote_read *call = arg;
	struct iovec to = { call->to, page_size };
	struct iovec from = { call->from, page_size };

	all(process_vm_readv(call->pid, &to, 1, &from, 1, 0), "process_vm_readv");
	return NULL;
}

static bool have_userfaultfd(void)
{
	const int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void reader_run(pid_t pid, char *page)
{
	/* Shared, so that it is not a memory file system's, which has no userfaultfd. */
	char *copy = mmap(NULL, page_size, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register watch = {
		.range = { (uintptr_t)copy, page_size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_zeropage give = { .range = watch.range };
	struct remote_read call = { pid, page, copy };
	const int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffd_msg message;
	pthread_t thread;
	char c = 0;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &watch))
		fail("userfaultfd");
	if (pthread_create(&thread, NULL, read_remote, &call))
		fail("pthread_create");
	if (read(fd, &message, sizeof(message)) != sizeof(message) ||
	    write(reader_said[1], &c, 1) != 1)
		fail("userfaultfd");
	await_char(reader_told[0], &c);
	if (ioctl(fd, UFFDIO_ZEROPAGE, &give))
		fail("UFFDIO_ZEROPAGE");
	pthread_join(thread, NULL);
	all(write(reader_said[1], copy, page_size), "write");
}

static bool remote_open(void)
{
	return have_userfaultfd() && !pipe(reader_said) && !pipe(reader_told);
}

static void remote_hold(pid_t pid, char *page)
{
	char c;

	reader = fork();
	if (reader < 0)
		fail("fork");
	if (!reader) {
		reader_run(pid, page);
		_exit(0);
	}
	await_char(reader_said[0], &c);
}

static void remote_held(char *copy)
{
	if (write(reader_told[1], "", 1) != 1)
		fail("write");
	all(read(reader_said[0], copy, page_size), "process_vm_readv");
	waitpid(reader, NULL, 0);
}

static void remote_close(void)
{
	close(reader_said[0]);
	close(reader_said[1]);
	close(reader_told[0]);
	close(reader_told[1]);
}

/* io_uring, without its library */

static struct io_uring_params ring_params;
static struct io_uring_sqe *ring_entries;
static char *ring_memory;

static bool ring_open(void)
{
	memset(&ring_params, 0, sizeof(ring_params));
	ring = syscall(SYS_io_uring_setup, 4, &ring_params);
	if (ring < 0)
		return false;
	ring_memory = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			   ring, IORING_OFF_SQ_RING);
	ring_entries = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			    ring, IORING_OFF_SQES);
	if (ring_memory == MAP_FAILED || ring_entries == MAP_FAILED)
		fail("io_uring");
	return true;
}

static void ring_close(void)
{
	munmap(ring_memory, 2 * page_size);
	munmap(ring_entries, page_size);
	close(ring);
}

static uint32_t *ring_at(uint32_t offset)
{
	return (uint32_t *)(ring_memory + offset);
}

static void ring_submit(unsigned int wait)
{
	const uint32_t tail = *ring_at(ring_params.sq_off.tail);
	const uint32_t mask = *ring_at(ring_params.sq_off.ring_mask);

	ring_at(ring_params.sq_off.array)[tail & mask] = 0;
	__atomic_store_n(ring_at(ring_params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, wait, wait ? IORING_ENTER_GETEVENTS : 0,
		    NULL, 0) != 1)
		fail("io_uring_enter");
}

static int ring_result(void)
{
	const uint32_t head = *ring_at(ring_params.cq_off.head);
	const uint32_t mask = *ring_at(ring_params.cq_off.ring_mask);
	const struct io_uring_cqe *events =
		(void *)(ring_memory + ring_params.cq_off.cqes);

	while (__atomic_load_n(ring_at(ring_params.cq_off.tail), __ATOMIC_ACQUIRE) == head)
		syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	return events[head & mask].res;
}

/* A registered buffer, written to a pipe when asked */

static bool fixed_open(void)
{
	return ring_open() && pipe_open();
}

static void fixed_hold(pid_t pid, char *page)
{
	struct iovec part = { page, page_size };

	(void)pid;
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &part, 1))
		fail("IORING_REGISTER_BUFFERS");
}

static void fixed_held(char *copy)
{
	memset(ring_entries, 0, sizeof(*ring_entries));
	ring_entries->opcode = IORING_OP_WRITE_FIXED;
	ring_entries->fd = ends[1];
	ring_entries->addr = (uintptr_t)held_at;
	ring_entries->len = page_size;
	ring_submit(1);
	all(ring_result(), "IORING_OP_WRITE_FIXED");
	pipe_held(copy);
}

static void fixed_close(void)
{
	close_ends();
	ring_close();
}

/*
 * A write past the page cache, by io_uring and without a registered buffer, to a disk
 * that is a file of a frozen file system: it waits for the thaw.
 */
#define DISK_DIR	"/run/holders"
#define DISK_FILE	DISK_DIR "/disk"

static int frozen;

static bool direct_open(void)
{
	if (frozen <= 0 || !ring_open())
		return false;
	if (ioctl(frozen, FIFREEZE, 0))
		fail("FIFREEZE");
	return true;
}

static void direct_hold(pid_t pid, char *page)
{
	(void)pid;
	memset(ring_entries, 0, sizeof(*ring_entries));
	ring_entries->opcode = IORING_OP_WRITE;
	ring_entries->fd = device;
	ring_entries->addr = (uintptr_t)page;
	ring_entries->len = page_size;
	ring_submit(0);
}

static void direct_held(char *copy)
{
	int file;

	if (ioctl(frozen, FITHAW, 0))
		fail("FITHAW");
	all(ring_result(), "IORING_OP_WRITE");
	file = open(DISK_FILE, O_RDONLY);
	if (file < 0)
		fail(DISK_FILE);
	all(read(file, copy, page_size), DISK_FILE);
	close(file);
}

static void direct_close(void)
{
	ioctl(frozen, FITHAW, 0);	/* unless it is thawed */
	ring_close();
}

static bool disk_make(void)
{
	int control, number, file;
	char path[32];

	if (system("mkfs.xfs -q -f /dev/ram0 >/dev/null 2>&1 && mkdir -p " DISK_DIR
		   " && mount -t xfs /dev/ram0 " DISK_DIR
		   " && dd if=/dev/zero of=" DISK_FILE " bs=64k count=1 2>/dev/null"))
		return false;
	control = open("/dev/loop-control", O_RDWR);
	number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);
	if (number < 0)
		return false;
	close(control);
	snprintf(path, sizeof(path), "/dev/loop%d", number);
	device = open(path, O_RDWR);
	file = open(DISK_FILE, O_RDWR);
	if (device < 0 || file < 0 || ioctl(device, LOOP_SET_FD, file))
		return false;
	close(file);
	close(device);
	device = open(path, O_RDWR | O_DIRECT);
	return device >= 0;
}

/* Once, before all */
static void holders_init(void)
{
	if (disk_make())
		frozen = open(DISK_DIR, O_RDONLY | O_DIRECTORY);
}

static const struct holder holders[] = {
	{
		.name = "vmsplice",
		.open = pipe_open, .hold = pipe_hold, .held = pipe_held,
		.close = close_ends,
	}, {
		.name = "splice to a socket",
		.open = socket_open, .hold = socket_hold, .held = socket_held,
		.close = close_ends,
	}, {
		.name = "splice to AF_ALG",
		.open = cipher_open, .hold = socket_hold, .held = cipher_held,
		.close = close_ends,
	}, {
		.name = "process_vm_readv",
		.open = remote_open, .hold = remote_hold, .held = remote_held,
		.close = remote_close, .outside = true,
	}, {
		.name = "io_uring's fixed buffer",
		.open = fixed_open, .hold = fixed_hold, .held = fixed_held,
		.close = fixed_close,
	}, {
		.name = "O_DIRECT in flight",
		.open = direct_open, .hold = direct_hold, .held = direct_held,
		.close = direct_close, .lasts = true,
	},
};
#define NR_HOLDERS	(sizeof(holders) / sizeof(holders[0]))

#endif /* _FBMM_HOLDERS_H */
