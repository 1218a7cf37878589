// SPDX-License-Identifier: GPL-2.0
/*
 * A read-only load on memcached, as YCSB's workload C: values of 1 KB, whose keys
 * follow a zipfian distribution with the constant 0.99, scattered over the items
 * (Cooper et al., SoCC 2010, section 5). For the FBMM paper's Figure 3.
 *
 * linux/guest/nodes.c counts the server's accesses between the marks, a line for
 * each JSON object printed; this program is linked to low addresses, so that it
 * can be told apart. Several keys go in one request, since most of what an emulated
 * processor would do otherwise is the system calls between. With "hog", memory of
 * node 0 is taken first until LOCAL megabytes are left there.
 *
 * The first line is for as many reads an item as the paper's authors make, 10
 * million of (40 - 1) GB / 1350 bytes = 31 million items (multifacet/fbmm-artifact,
 * README.md; multifacet/fbmm-workspace, runner/src/fbmm_exp.rs); the others are for
 * READS in equal parts, to see where it leads.
 *
 * Usage: zipf ITEMS READS LOCAL_MB [hog]
 */
#include "nodes.h"
#include "zipf.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define VALUE		1000
#define AT_ONCE		32
#define SLICES		8
#define FIRST(items)	((items) * 10 / 31)

static int server;

static void talk(const char *request, size_t length, const char *end)
{
	static char answer[AT_ONCE * (VALUE + 64) + 64];
	const size_t end_length = strlen(end);
	size_t have = 0;
	ssize_t n;

	while (length) {
		n = write(server, request, length);
		if (n <= 0)
			fail("write to memcached");
		request += n;
		length -= n;
	}
	while (have < end_length || memcmp(answer + have - end_length, end, end_length)) {
		n = read(server, answer + have, sizeof(answer) - have);
		if (n <= 0)
			fail("memcached's answer");
		have += n;
	}
}

static void store_all(unsigned long items)
{
	static char request[VALUE + 64];
	unsigned long i;
	size_t length;

	for (i = 0; i < items; i++) {
		length = sprintf(request, "set user%lu 0 0 %d\r\n", i, VALUE);
		memset(request + length, 'a' + i % 26, VALUE);
		memcpy(request + length + VALUE, "\r\n", 2);
		talk(request, length + VALUE + 2, "STORED\r\n");
	}
}

static void read_some(unsigned long items, unsigned long reads)
{
	static char request[AT_ONCE * 32 + 16];
	size_t length;
	int i;

	for (; reads >= AT_ONCE; reads -= AT_ONCE) {
		length = sprintf(request, "get");
		for (i = 0; i < AT_ONCE; i++)
			length += sprintf(request + length, " user%lu", next_item(items));
		length += sprintf(request + length, "\r\n");
		talk(request, length, "END\r\n");
	}
}

static void measure(unsigned long items, unsigned long reads)
{
	mark_begin();
	read_some(items, reads);
	mark_end();
	printf("{\"bench\": \"memcached\", \"reads\": %lu}\n", reads);
	fflush(stdout);
}

static pid_t start_server(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pid_t pid;
	int tries;

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/memcached-%d", getpid());
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		execlp("memcached", "memcached", "-u", "root", "-s",
		       address.sun_path, "-t", "1", "-m", "1024", NULL);
		fail("memcached");
	}
	server = socket(AF_UNIX, SOCK_STREAM, 0);
	for (tries = 0; connect(server, (void *)&address, sizeof(address)); tries++) {
		if (tries == 500)
			fail(address.sun_path);
		usleep(10000);
	}
	unlink(address.sun_path);
	return pid;
}

int main(int argc, char **argv)
{
	unsigned long items, reads, rank;
	double zeta = 0;
	pid_t pid;
	int i;

	if (argc < 4) {
		fprintf(stderr, "usage: zipf ITEMS READS LOCAL_MB [hog]\n");
		return 2;
	}
	items = strtoul(argv[1], NULL, 0);
	reads = strtoul(argv[2], NULL, 0);
	lab_init();
	if (argc > 4)
		take_local(strtol(argv[3], NULL, 0));
	pid = start_server();
	for (rank = 1; rank <= items; rank++)
		zeta += pow(1.0 / rank, THETA);
	zipf_init(items, zeta);
	store_all(items);
	measure(items, FIRST(items));
	for (i = 0; i < SLICES; i++)
		measure(items, reads / SLICES);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return 0;
}
