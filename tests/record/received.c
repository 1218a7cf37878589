// Waits for a signal and exits with its number; or, with an argument, leaves a child behind that says its number and
// waits for one that kills it, ignoring SIGTERM if the argument is "ignore".
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t received;

static void handle(int signal)
{
    received = signal;
}

static void wait_for_it(void)
{
    for (int i = 0; i < 6000 && !received; i++)
        usleep(10000);
}

static void leave_behind(const char *how)
{
    pid_t parent = getpid();

    if (fork())
        _exit(3);
    // Until it has ended and was waited for.
    while (!kill(parent, 0))
        usleep(1000);
    if (!strcmp(how, "ignore"))
        signal(SIGTERM, SIG_IGN);
    printf("%d\n", getpid());
    fclose(stdout);
    wait_for_it();
    _exit(4);
}

int main(int count, char **words)
{
    if (count > 1 && strcmp(words[1], "default"))
        leave_behind(words[1]);
    for (int i = 1; i < 65; i++)
        if (i != SIGCHLD && i != SIGSEGV && count == 1)
            signal(i, handle);
    printf("%d\n", getpid());
    fclose(stdout);
    wait_for_it();
    return received;
}
