// SPDX-License-Identifier: GPL-2.0
/*
 * Memory errors: a page that has one kills who uses it once it has to be mapped
 * anew or copied, and nobody else. Run it under fbmm-run; without, it tests itself.
 */
#include "lab.h"

#define SIZE	((size_t)2 << 20)
#define BROKEN	(5 * page_size)

/* Of children */
#define KILLED	(256 + SIGBUS)
#define REFUSED	1

/* As the machine reports an error of a page; the page is mapped already. */
static bool break_page(const char *page)
{
	char address[32];

	snprintf(address, sizeof(address), "0x%llx",
		 (unsigned long long)page_frame(page) * page_size);
	return write_file("/sys/devices/system/memory/hard_offline_page", address) ||
	       errno == EBUSY;	/* The kernel does not know whose it is. */
}

static int child_writes(void *page)
{
	fill(page, page_size, 2);
	return 0;
}

static int child_moves(void *memory)
{
	char *to = map_private(SIZE, 0);
	char *moved = mremap(memory, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	if (moved == MAP_FAILED)
		return REFUSED;
	if (!filled(moved, BROKEN, 1))
		return 2;
	return zero(moved + BROKEN, page_size) ? 3 : 4;	/* not reached */
}

int main(void)
{
	char *memory;
	int result;

	lab_init();
	memory = map_private(SIZE, 0);
	if (!is_managed(memory)) {
		test_skip("the kernel's own pages are another matter");
		return KSFT_SKIP;
	}
	fill(memory, SIZE, 1);
	if (!break_page(memory + BROKEN)) {
		test_skip("hard_offline_page: %s", strerror(errno));
		return KSFT_SKIP;
	}
	test_result(in_child(child_writes, memory + BROKEN) == KILLED,
		    "a child that needs a copy is killed");
	result = in_child(child_writes, memory + 2 * BROKEN);
	test_result(!result || result == KILLED,
		    "one that needs a copy of another page may be: %d", result);
	result = in_child(child_moves, memory);
	test_result(result == REFUSED || result == KILLED,
		    "so is one that reads it in another place: %d", result);
	test_result(filled(memory, BROKEN, 1), "the pages before it are as they were");
	test_result(!munmap(memory, SIZE), "it can be unmapped");
	memory = map_private(3 * SIZE, MAP_POPULATE);
	test_result(zero(memory, 3 * SIZE), "new memory has none of it");
	return test_end();
}
