/* Prints the address that each of many calls gives, one a line: what was called, and where it is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIB = 1 << 10, MIB = 1 << 20, ANON = MAP_PRIVATE | MAP_ANONYMOUS };

static const int RW = PROT_READ | PROT_WRITE;

static void *say(const char *what, void *address)
{
    if (address == MAP_FAILED)
        printf("%s fails %d\n", what, errno);
    else
        printf("%s %p\n", what, address);
    return address;
}

static void *map(const char *what, void *hint, size_t length, int flags)
{
    return say(what, mmap(hint, length, RW, flags, -1, 0));
}

static void sizes(void)
{
    size_t lengths[] = {4 * KIB, 60 * KIB, 1 * MIB, 2 * MIB - 4 * KIB, 2 * MIB, 2 * MIB + 4 * KIB,
                        3 * MIB, 4 * MIB, 10 * MIB, 64 * MIB, 64 * MIB + 4 * KIB};
    for (size_t index = 0; index < sizeof lengths / sizeof *lengths; index++) {
        map("length", NULL, lengths[index], ANON);
        map("page", NULL, 4 * KIB, ANON);
    }
    char *reserved = map("reserved", NULL, (size_t)64 << 30, ANON | MAP_NORESERVE);
    say("fixed", mmap(reserved + (3 << 20), 1 * MIB, RW, ANON | MAP_FIXED, -1, 0));
    map("no replacement", reserved + MIB, 4 * KIB, ANON | MAP_FIXED_NOREPLACE);
    map("too long", NULL, (size_t)1 << 47, ANON | MAP_NORESERVE);
}

static void again(void)
{
    for (int round = 0; round < 20; round++) {
        void *mapped = map("again", NULL, 1 * MIB, ANON);
        munmap(mapped, 1 * MIB);
    }
}

static void hints(void)
{
    char *place = map("place", NULL, 16 * MIB, ANON);
    munmap(place + 4 * MIB, 8 * MIB);
    map("free hint", place + 4 * MIB, 1 * MIB, ANON);
    map("hint within a page", place + 6 * MIB + 123, 4 * KIB, ANON);
    map("huge at a free hint", place + 9 * MIB - 4 * KIB, 2 * MIB, ANON);
    map("occupied hint", place, 4 * KIB, ANON);
    map("huge at an occupied hint", place, 4 * MIB, ANON);
    map("free low hint", (void *)0x20000000, 4 * MIB, ANON);
    map("Go's hint", (void *)0xc000000000, 64 * MIB, ANON);
    map("hint in the kernel", (void *)0xffff800000000000, 4 * KIB, ANON);
    for (int round = 0; round < 4; round++) {
        map("32 bits", NULL, 1 * MIB, ANON | MAP_32BIT);
        map("32 bits, huge", NULL, 2 * MIB, ANON | MAP_32BIT);
    }
    map("32 bits with a hint", (void *)0x50000000, 8 * KIB, ANON | MAP_32BIT);
    map("32 bits, high hint", place, 8 * KIB, ANON | MAP_32BIT);
}

static void files(const char *path)
{
    int memory = memfd_create("layout", 0);
    int disk = open(path, O_RDONLY);
    int descriptors[] = {memory, disk};
    ftruncate(memory, 8 * MIB);
    map("shared", NULL, 4 * MIB, MAP_SHARED | MAP_ANONYMOUS);
    for (int index = 0; index < 2; index++) {
        int descriptor = descriptors[index];
        for (int share = 0; share < 2; share++) {
            int flags = share ? MAP_SHARED : MAP_PRIVATE;
            say("file", mmap(NULL, 64 * KIB, PROT_READ, flags, descriptor, 0));
            say("huge file", mmap(NULL, 4 * MIB, PROT_READ, flags, descriptor, 0));
            say("odd file", mmap(NULL, 5 * MIB + 1, PROT_READ, flags, descriptor, 0));
            say("second page", mmap(NULL, 4 * MIB, PROT_READ, flags, descriptor, 4 * KIB));
            say("no 2 MiB", mmap(NULL, 3 * MIB, PROT_READ, flags, descriptor, 4 * KIB));
            say("file at hint", mmap((void *)0x30000000, 4 * MIB, PROT_READ, flags, descriptor, 0));
        }
    }
}

static void moves(void)
{
    char *grown = map("grown", NULL, 8 * MIB, ANON);
    munmap(grown + MIB, 7 * MIB);
    say("in place", mremap(grown, 1 * MIB, 3 * MIB, MREMAP_MAYMOVE));
    say("shrunk", mremap(grown, 3 * MIB, 2 * MIB, MREMAP_MAYMOVE));
    say("moved", grown = mremap(grown, 2 * MIB, 16 * MIB, MREMAP_MAYMOVE));
    say("moved, odd", grown = mremap(grown, 16 * MIB, 17 * MIB + 4 * KIB, MREMAP_MAYMOVE));
    say("not moved", mremap(grown, 17 * MIB + 4 * KIB, 32 * MIB, 0));
    /* The C library's passes no hint on, but what the register holds. */
    int flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    say("left", (void *)syscall(SYS_mremap, grown, 4 * MIB, 4 * MIB, flags, NULL));
    char *target = map("target", NULL, 4 * MIB, ANON);
    say("put", mremap(grown + 4 * MIB, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, target + MIB));
    map("where it was", NULL, 1 * MIB, ANON);
}

static void heap(void)
{
    char *start = say("heap", sbrk(0));
    say("heap + 1", sbrk(1 * MIB));
    say("heap + 2", sbrk(5 * MIB + 5));
    say("heap - 1", sbrk(-2 * MIB));
    say("heap now", sbrk(0));
    brk(start);
    say("malloc", malloc(100));
    say("large malloc", malloc(40 * MIB));
}

static void shared_memory(void)
{
    for (size_t length = 4 * KIB; length <= 4 * MIB; length <<= 10) {
        int id = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
        void *first = say("attached", shmat(id, NULL, 0));
        say("attached again", shmat(id, NULL, SHM_RDONLY));
        shmdt(first);
        say("attached a third time", shmat(id, NULL, 0));
        shmctl(id, IPC_RMID, NULL);
    }
}

static void *thread(void *unused)
{
    int local;
    say("a thread's stack", &local);
    say("its malloc", malloc(1000));
    say("its large malloc", malloc(3 * MIB));
    map("its mapping", NULL, 2 * MIB, ANON);
    return unused;
}

/* One after the other, so that the order of what they map is the same each time. */
static void threads(void)
{
    for (int round = 0; round < 4; round++) {
        pthread_attr_t attributes;
        pthread_t id;
        pthread_attr_init(&attributes);
        if (round % 2)
            pthread_attr_setstacksize(&attributes, 256 * KIB);
        pthread_create(&id, &attributes, thread, NULL);
        pthread_join(id, NULL);
    }
}

static void child(void)
{
    fflush(stdout);
    if (fork() == 0) {
        map("the child's", NULL, 6 * MIB, ANON);
        say("the child's heap", sbrk(4 * KIB));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    map("the parent's", NULL, 6 * MIB, ANON);
}

/* Maps and unmaps at random: holes of all sizes, reused. */
static void at_random(void)
{
    enum { PLACES = 64 };
    struct { char *start; size_t length; } places[PLACES] = {0};
    unsigned state = 1;
    for (int round = 0; round < 2000; round++) {
        state = state * 1664525 + 1013904223;
        int place = state >> 8 & (PLACES - 1);
        if (places[place].length) {
            /* Half of the time only a part of it. */
            size_t part = state & 1 << 20 ? places[place].length : 4 * KIB;
            munmap(places[place].start, part);
            places[place].start += part;
            places[place].length -= part;
            continue;
        }
        size_t length = (state >> 14 & 7) ? ((state >> 16 & 0x3ff) + 1) * 4 * KIB
                                          : ((state >> 16 & 3) + 1) * 2 * MIB;
        places[place].length = length;
        places[place].start = mmap(NULL, length, state & 1 << 28 ? PROT_READ : RW, ANON, -1, 0);
        say("at random", places[place].start);
    }
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    say("program", main);
    say("library", printf);
    heap();
    sizes();
    again();
    hints();
    files(arguments[1]);
    moves();
    shared_memory();
    threads();
    child();
    at_random();
    return 0;
}
