/*
 * Streams of accesses with one property each, to be recorded: streams NAME ROUNDS.
 * What comes before the rounds touches every page, so that no round faults.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ul
#define LINE 64ul

struct node {
	struct node *next;
	uint64_t field;
};

static volatile uint64_t sink;
static uint64_t state = 0x9e3779b97f4a7c15;

static inline uint64_t draw(void)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return state >> 24;
}

static char *memory(size_t bytes)
{
	char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		exit(1);
	for (size_t at = 0; at < bytes; at += PAGE)
		start[at] = 1;
	return start;
}

/* One cycle over `count` nodes, `stride` bytes and 0 to `spread` - 1 lines apart. */
static struct node *cycle(size_t count, size_t stride, size_t spread)
{
	char *start = memory(count * stride + PAGE);
	uint32_t *order = (uint32_t *)memory(count * sizeof(*order));

	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count - 1; i > 0; i--) {
		size_t other = draw() % i;
		uint32_t moved = order[i];

		order[i] = order[other];
		order[other] = moved;
	}
#define NODE(i) ((struct node *)(start + order[i] * stride + order[i] % spread * LINE))
	for (size_t i = 0; i < count; i++) {
		NODE(i)->next = NODE((i + 1) % count);
		NODE(i)->field = i;
	}
	return NODE(0);
}

static void chase(struct node *node, long rounds)
{
	while (rounds--)
		node = node->next;
	sink = (uint64_t)node;
}

static void two_fields(struct node *node, long rounds)
{
	uint64_t sum = 0;

	while (rounds--) {
		sum += *(volatile uint64_t *)&node->field;
		node = node->next;
	}
	sink = sum + (uint64_t)node;
}

static void four_chains(struct node *node, long rounds)
{
	struct node *chain[4];

	for (int i = 0; i < 4; i++) {
		chain[i] = node;
		for (int j = 0; j < 1000; j++)
			node = node->next;
	}
	while (rounds--) {
		chain[0] = chain[0]->next;
		chain[1] = chain[1]->next;
		chain[2] = chain[2]->next;
		chain[3] = chain[3]->next;
	}
	for (int i = 0; i < 4; i++)
		sink += (uint64_t)chain[i];
}

static void updates(uint64_t *data, size_t words, long rounds)
{
	while (rounds--)
		data[draw() % words] ^= rounds;
}

static void loads(uint64_t *data, size_t words, long rounds)
{
	uint64_t sum = 0;

	while (rounds--)
		sum += data[draw() % words];
	sink = sum;
}

/* A triad, 8 bytes at a time. */
static void stream(uint64_t *data, size_t words, long rounds)
{
	size_t third = words / 3;
	uint64_t *a = data, *b = data + third, *c = data + 2 * third;

	for (long i = 0; i < rounds; i++)
		*(volatile uint64_t *)&a[i % third] = b[i % third] + 3 * c[i % third];
}

/* An index read in order, and what it points to: independent of one another, as in a graph. */
static void gather(uint32_t *index, uint64_t *data, long rounds)
{
	uint64_t sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += *(volatile uint64_t *)&data[index[i]];
	sink = sum;
}

/* Look-ups in a hash table with linear probing, a hundredth full: most find nothing. */
static void look_up(uint64_t *table, size_t slots, long rounds)
{
	uint64_t found = 0;

	while (rounds--) {
		uint64_t key = draw() % (slots / 2) * 2 + 1;
		size_t at = key * 0x9e3779b97f4a7c15ul % slots;

		while (table[at] && table[at] != key)
			at = (at + 1) % slots;
		found += table[at] == key;
	}
	sink = found;
}

int main(int count, char **arguments)
{
	const char *name = count == 3 ? arguments[1] : "";
	long rounds = count == 3 ? atol(arguments[2]) : 0;
	const size_t bytes = 32ul << 20;

	if (!strcmp(name, "chase")) {
		chase(cycle(8000, PAGE, 64), rounds);
	} else if (!strcmp(name, "two-fields")) {
		two_fields(cycle(8000, PAGE, 64), rounds);
	} else if (!strcmp(name, "four-chains")) {
		four_chains(cycle(8000, PAGE, 64), rounds);
	} else if (!strcmp(name, "chase-l1")) {
		chase(cycle(256, LINE, 1), rounds);
	} else if (!strcmp(name, "chase-l2")) {
		chase(cycle(3000, LINE, 1), rounds);
	} else if (!strcmp(name, "chase-llc")) {
		chase(cycle(16000, LINE, 1), rounds);
	} else if (!strcmp(name, "chase-dram")) {
		/* 18 lines a set of the last level, 563 pages: within the second-level TLB. */
		chase(cycle(36000, LINE, 1), rounds);
	} else if (!strcmp(name, "chase-stlb")) {
		chase(cycle(256, PAGE, 64), rounds);
	} else if (!strcmp(name, "updates")) {
		updates((uint64_t *)memory(bytes), bytes / 8, rounds);
	} else if (!strcmp(name, "loads")) {
		loads((uint64_t *)memory(bytes), bytes / 8, rounds);
	} else if (!strcmp(name, "stream")) {
		stream((uint64_t *)memory(bytes), bytes / 8, rounds);
	} else if (!strcmp(name, "gather")) {
		uint32_t *index = (uint32_t *)memory(100000 * 4);

		for (long i = 0; i < 100000; i++)
			index[i] = draw() % (bytes / 8);
		gather(index, (uint64_t *)memory(bytes), rounds);
	} else if (!strcmp(name, "hash")) {
		size_t slots = bytes / 8;
		uint64_t *table = (uint64_t *)memory(bytes);

		/* Pages are touched above with a 1 in their first byte: no key to be found there. */
		for (size_t i = 0; i < 50000; i++) {
			uint64_t key = draw() % (slots / 2) * 2 + 1;
			size_t at = key * 0x9e3779b97f4a7c15ul % slots;

			while (table[at])
				at = (at + 1) % slots;
			table[at] = key;
		}
		look_up(table, slots, rounds);
	} else {
		return 2;
	}
	return 0;
}
