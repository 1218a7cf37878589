// SPDX-License-Identifier: GPL-2.0
/*
 * What dump_page() says of a large folio: a map count of the page, and how many pages
 * are mapped; with foliomap=on the average map count, as pages have none of their own,
 * and not how many are mapped, which is not counted.
 */
#include "lab.h"

#include <linux/types.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

/* From mm/gup_test.h, which is not installed */
struct gup_test {
	__u64 get_delta_usec, put_delta_usec, addr, size;
	__u32 nr_pages_per_call, gup_flags, test_flags, which_pages[8];
};

#define DUMP_USER_PAGES_TEST	_IOWR('g', 6, struct gup_test)

static const unsigned int order = 4;
static int kmsg;

/* The text after "page: " and "head: " of what is printed of the page at an address. */
static void dump(char *memory, char *page, char *head, size_t size)
{
	struct gup_test call = {
		.addr = (uintptr_t)memory,
		.size = page_size,
		.nr_pages_per_call = 1,
		.which_pages = { 1 },
	};
	int fd = open("/sys/kernel/debug/gup_test", O_RDWR);
	char line[1024];
	ssize_t got;

	*page = *head = 0;
	lseek(kmsg, 0, SEEK_END);
	if (fd < 0 || ioctl(fd, DUMP_USER_PAGES_TEST, &call))
		fail("gup_test");
	close(fd);
	while ((got = read(kmsg, line, sizeof(line) - 1)) > 0) {
		char *text = memchr(line, ';', got);

		line[got] = 0;
		if (text && !strncmp(text, ";page: ", 7))
			snprintf(page, size, "%s", text + 7);
		else if (text && !*head && !strncmp(text, ";head: order:", 13))
			snprintf(head, size, "%s", text + 7);
	}
}

static void expect(char *memory, int mapcount, int total, int mapped)
{
	const bool average = foliomap_on();
	char page[512], head[512], want[128], want_head[128];

	dump(memory, page, head, sizeof(page));
	snprintf(want, sizeof(want), " %smapcount:%d ", average ? "average_" : "", mapcount);
	test_result(strstr(page, want), "the page's line has%s", want);
	snprintf(want_head, sizeof(want_head), "order:%u mapcount:%d ", order, total);
	test_result(strstr(head, want_head), "the folio's has %s", want_head);
	snprintf(want_head, sizeof(want_head), " nr_pages_mapped:%d ", mapped);
	test_result(average ? !strstr(head, "nr_pages_mapped") : !!strstr(head, want_head),
		    average ? "and not how many pages are mapped" :
			      "and how many pages are mapped");
	if (test_failures)
		fprintf(stderr, "%s%s", page, head);
}

int main(void)
{
	const size_t size = page_size << order;
	char *memory;
	pid_t pid;
	int status;

	lab_init();
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (kmsg < 0)
		fail("/dev/kmsg");
	allow_order(order);
	memory = reserve(size);
	madvise(memory, size, MADV_HUGEPAGE);
	memory[0] = 1;
	if (!backed_by(memory, size, order))
		fail("no large folio");
	expect(memory, 1, 1 << order, 1 << order);
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid)
		pause();
	expect(memory, 2, 2 << order, 1 << order);
	kill(pid, 9);
	waitpid(pid, &status, 0);
	/* The page itself and five others */
	munmap(memory + 6 * page_size, size - 6 * page_size);
	expect(memory, 1, 6, 6);
	return test_end();
}
