// A child whose first thread ends, and another thread goes on for longer than a process is waited for that
// has vanished: it stores to each line of `places` so many times, and ends the process with status 5.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 16384, ROUNDS = 40 };

volatile char places[LINES * 64];

static void *work(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        usleep(60000);
        for (int line = 0; line < LINES; line++)
            places[line * 64] = 1;
    }
    exit(5);
    return argument;
}

int main(void)
{
    pid_t child = fork();
    pthread_t thread;
    int status;

    if (child) {
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? 10 + WEXITSTATUS(status) : 1;
    }
    pthread_create(&thread, 0, work, 0);
    pthread_exit(0);
}
