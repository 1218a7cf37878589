// A program whose memory is known by the line that allocates it. Its output: sizes, for the tests.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t MIB = 1 << 20;
static const size_t PAGE = 4096;

struct Node {
	Node *next;
	long value[7];
};

// What xmalloc and the like are in many programs.
__attribute__((noinline)) static void *checked(size_t size)
{
	void *memory = malloc(size); // wrapped
	if (!memory)
		abort();
	return memory;
}

__attribute__((noinline)) static char *first_user(void)
{
	return (char *)checked(2 * MIB); // first user
}

__attribute__((noinline)) static char *second_user(void)
{
	return (char *)checked(3 * MIB); // second user
}

static void touch(char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PAGE)
		memory[at]++;
}

static void *work(void *)
{
	char *memory = (char *)calloc(1, 4 * MIB); // thread
	touch(memory, 4 * MIB);
	return memory;
}

int main()
{
	unsigned long *table = (unsigned long *)malloc(32 * MIB); // table
	memset(table, 1, 32 * MIB);
	unsigned long x = 1;
	for (int i = 0; i < 200000; i++) {
		x = x * 6364136223846793005ul + 1442695040888963407ul;
		table[(x >> 33) % (4 * MIB)]++;
	}

	Node *list = nullptr;
	for (int i = 0; i < 50000; i++) {
		Node *node = new Node(); // list
		node->next = list;
		list = node;
	}

	char *grown = (char *)malloc(MIB); // to be grown
	touch(grown, MIB);
	// Behind it is the next one, so that it is moved.
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *behind = (char *)mmap(nullptr, 5 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0); // mapped
	touch(behind, 5 * MIB);
	grown = (char *)realloc(grown, 6 * MIB); // grown
	touch(grown, 6 * MIB);

	void *aligned = nullptr;
	if (posix_memalign(&aligned, 2 * MIB, MIB)) // aligned
		return 1;
	touch((char *)aligned, MIB);

	touch(first_user(), 2 * MIB);
	touch(second_user(), 3 * MIB);

	pthread_t thread;
	void *of_thread;
	pthread_create(&thread, nullptr, work, nullptr);
	pthread_join(thread, &of_thread);

	pid_t child = fork();
	if (child == 0) {
		// Copies pages of the table, and has memory of its own.
		touch((char *)table, 8 * MIB);
		char *own = (char *)malloc(7 * MIB); // child
		touch(own, 7 * MIB);
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);

	long sum = 0;
	for (Node *node = list; node; node = node->next)
		sum += node->value[0];
	free(table);
	printf("%ld %zu\n", sum, sizeof(Node));
	return status;
}
