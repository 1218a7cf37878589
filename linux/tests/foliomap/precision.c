// SPDX-License-Identifier: GPL-2.0
/*
 * A, B and C map a folio; A and B unmap. The folio is then exclusive to C, and
 * C writes to it without a copy. A scheme with two slots per folio, as Linux has
 * since 6.15, can only say "maybe shared" here. Tried for every folio size, with
 * all of the folio mapped and with parts that do not overlap.
 */
#include "lab.h"

#include <sys/wait.h>

static char *region;
static size_t size;

static void step(int fd, char c)
{
	if (write(fd, &c, 1) != 1)
		fail("write to pipe");
}

static void await(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		_exit(1);
}

/* C: says whether its page is exclusive when told to, then writes to it. */
static void run_c(int go, int answer, size_t own)
{
	size_t page, copies = 0;

	for (;;) {
		char order;

		if (read(go, &order, 1) != 1)
			_exit(1);
		if (order == '?')
			step(answer, '0' + page_exclusive(region + own));
		else
			break;
	}
	for (page = own; page < size; page += page_size) {
		const uint64_t frame = page_frame(region + page);

		region[page]++;
		copies += page_frame(region + page) != frame;
	}
	step(answer, copies ? 'c' : 'r');
	_exit(0);
}

/* @parts: every process keeps only a third of the folio. */
static void check(unsigned int order, bool parts)
{
	const size_t third = parts ? (1ul << order) / 4 * page_size : 0;
	int go_c[2], from_c[2], go_b[2], from_b[2];
	char got;
	pid_t b, c;

	size = page_size << order;
	region = alloc_folio(order);
	if (!region) {
		test_skip("order %u: no such folio to be had", order);
		return;
	}
	/* Order 9 starts khugepaged, which would copy the folio into another. */
	allow_order(0);
	if (pipe(go_c) || pipe(from_c) || pipe(go_b) || pipe(from_b))
		fail("pipe");

	c = fork();
	if (!c) {
		if (parts)
			madvise(region, third * 2, MADV_DONTNEED);
		step(from_c[1], '.');
		run_c(go_c[0], from_c[1], third * 2);
	}
	await(from_c[0]);
	b = fork();
	if (!b) {
		if (parts) {
			madvise(region, third, MADV_DONTNEED);
			madvise(region + third * 2, size - third * 2, MADV_DONTNEED);
		}
		step(from_b[1], '.');
		await(go_b[0]);
		_exit(0);
	}
	await(from_b[0]);
	if (parts)
		madvise(region + third, size - third, MADV_DONTNEED);

	step(go_c[1], '?');
	await_char(from_c[0], &got);
	test_result(got == '0', "order %u%s: three map it: shared", order,
		    parts ? ", parts" : "");

	munmap(region, size);			/* A */
	step(go_c[1], '?');
	await_char(from_c[0], &got);
	test_result(got == '0', "order %u%s: B and C map it: shared", order,
		    parts ? ", parts" : "");

	step(go_b[1], '.');			/* B */
	waitpid(b, NULL, 0);
	step(go_c[1], '?');
	await_char(from_c[0], &got);
	test_result(got == '1', "order %u%s: only C maps it: exclusive", order,
		    parts ? ", parts" : "");

	step(go_c[1], 'w');
	await_char(from_c[0], &got);
	test_result(got == 'r', "order %u%s: C writes without a copy", order,
		    parts ? ", parts" : "");
	waitpid(c, NULL, 0);
}

int main(void)
{
	unsigned int order;

	lab_init();
	if (!foliomap_on()) {
		printf("1..0 # SKIP foliomap is off\n");
		return KSFT_SKIP;
	}
	for (order = 2; order <= pmd_order; order++) {
		check(order, false);
		check(order, true);
	}
	return test_end();
}
