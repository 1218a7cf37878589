// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that are pinned for long, as io_uring's registered buffers are, stay the
 * process's own over fork(), and are not given to others when they are unmapped.
 * The kernel's gup_test pins them and reads what is in them by their place in
 * memory. Run it under fbmm-run; without, it tests itself.
 */
#include "pin.h"

#define SIZE	(16 * page_size)

static void test_fork(unsigned int how)
{
	char *a = map_private(SIZE, 0);
	int go[2], status;
	pid_t pid;
	char c;

	fill(a, SIZE, 1);
	if (!pin(a, SIZE, how)) {
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
	test_result(filled(pinned(SIZE), SIZE, 2),
		    "pinned pages are still the parent's after fork()");
	if (write(go[1], "", 1) != 1)
		fail("write");
	waitpid(pid, &status, 0);
	test_result(!status, "the child has what was there at fork()");
	fill(a, SIZE, 3);
	test_result(filled(pinned(SIZE), SIZE, 3), "and when the child is gone");
	unpin();
	munmap(a, SIZE);
	close(go[0]);
	close(go[1]);
}

static int child_pins(void *memory)
{
	if (!pin(memory, SIZE, 0))
		return 2;
	fill(memory, SIZE, 5);
	return filled(pinned(SIZE), SIZE, 5) ? 0 : 1;
}

/* A pin for writing comes after the copy, not before. */
static void test_pin_shared(void)
{
	char *a = map_private(SIZE, 0);

	fill(a, SIZE, 4);
	test_result(!in_child(child_pins, a) && filled(a, SIZE, 4),
		    "a child pins its own copy");
	unpin();
	munmap(a, SIZE);
}

static void test_unmap(void)
{
	char *a = map_private(SIZE, 0), *b;

	fill(a, SIZE, 6);
	if (!pin(a, SIZE, 0)) {
		test_result(false, "a long-term pin for writing: %s", strerror(errno));
		return;
	}
	munmap(a, SIZE);
	b = map_private(16 * SIZE, MAP_POPULATE);
	fill(b, 16 * SIZE, 7);
	test_result(filled(pinned(SIZE), SIZE, 6), "nobody else gets pinned pages");
	test_result(filled(b, 16 * SIZE, 7), "and they are none of new memory");
	unpin();
	munmap(b, 16 * SIZE);
}

int main(void)
{
	lab_init();
	if (!pin_open()) {
		test_skip("/sys/kernel/debug/gup_test: %s", strerror(errno));
		return KSFT_SKIP;
	}
	test_fork(0);
	test_fork(PIN_FAST);
	test_pin_shared();
	test_unmap();
	return test_end();
}
