// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that are pinned for long, as io_uring's registered buffers are, stay the
 * process's own over fork(), and are not given to others when they are unmapped.
 * The kernel's gup_test pins them and reads what is in them by their place in
 * memory. Run it under fbmm-run; without, it tests itself.
 */
#include "lab.h"

#include <linux/types.h>
#include <sys/ioctl.h>

#define SIZE	(16 * page_size)

/* From mm/gup_test.h, which is not installed */
struct pin {
	__u64 addr, size;
	__u32 flags;
};

#define PIN_START	_IOW('g', 7, struct pin)
#define PIN_STOP	_IO('g', 8)
#define PIN_READ	_IOW('g', 9, __u64)
#define PIN_WRITABLE	1
#define PIN_FAST	2

static int gup_test;

static bool pin(char *memory, unsigned int how)
{
	struct pin pin = { (uintptr_t)memory, SIZE, PIN_WRITABLE | how };

	return !ioctl(gup_test, PIN_START, &pin);
}

/* What the pinned pages hold now. */
static const char *pinned(void)
{
	static char *copy;
	__u64 addr;

	if (!copy)
		copy = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	addr = (uintptr_t)copy;
	if (ioctl(gup_test, PIN_READ, &addr))
		fail("PIN_READ");
	return copy;
}

static void test_fork(unsigned int how)
{
	char *a = map_private(SIZE, 0);
	int go[2], status;
	pid_t pid;
	char c;

	fill(a, SIZE, 1);
	if (!pin(a, how)) {
		test_result(false, "a long-term pin for writing: %s", strerror(errno));
		return;
	}
	if (pipe(go))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		if (read(go[0], &c, 1) != 1)
			_exit(2);
		_exit(filled(a, SIZE, 1) ? 0 : 1);
	}
	fill(a, SIZE, 2);
	test_result(filled(pinned(), SIZE, 2),
		    "pinned pages are still the parent's after fork()");
	if (write(go[1], "", 1) != 1)
		fail("write");
	waitpid(pid, &status, 0);
	test_result(!status, "the child has what was there at fork()");
	fill(a, SIZE, 3);
	test_result(filled(pinned(), SIZE, 3), "and when the child is gone");
	ioctl(gup_test, PIN_STOP);
	munmap(a, SIZE);
	close(go[0]);
	close(go[1]);
}

static int child_pins(void *memory)
{
	if (!pin(memory, 0))
		return 2;
	fill(memory, SIZE, 5);
	return filled(pinned(), SIZE, 5) ? 0 : 1;
}

/* A pin for writing comes after the copy, not before. */
static void test_pin_shared(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 4);
	test_result(!in_child(child_pins, a) && filled(a, SIZE, 4),
		    "a child pins its own copy");
	ioctl(gup_test, PIN_STOP);
	munmap(a, SIZE);
}

static void test_unmap(void)
{
	char *a = map_private(SIZE, 0), *b;

	fill(a, SIZE, 6);
	if (!pin(a, 0)) {
		test_result(false, "a long-term pin for writing: %s", strerror(errno));
		return;
	}
	munmap(a, SIZE);
	b = map_private(16 * SIZE, MAP_POPULATE);
	fill(b, 16 * SIZE, 7);
	test_result(filled(pinned(), SIZE, 6), "nobody else gets pinned pages");
	test_result(filled(b, 16 * SIZE, 7), "and they are none of new memory");
	ioctl(gup_test, PIN_STOP);
	munmap(b, 16 * SIZE);
}

int main(void)
{
	lab_init();
	gup_test = open("/sys/kernel/debug/gup_test", O_RDWR);
	if (gup_test < 0) {
		test_skip("/sys/kernel/debug/gup_test: %s", strerror(errno));
		return KSFT_SKIP;
	}
	test_fork(0);
	test_fork(PIN_FAST);
	test_pin_shared();
	test_unmap();
	return test_end();
}
