// Says which signals it was started with ignored or blocked; those that a C library has for itself left out.
#include <signal.h>
#include <stdio.h>

int main(void)
{
    sigset_t blocked;

    sigprocmask(SIG_BLOCK, 0, &blocked);
    for (int i = 1; i < 32; i++) {
        struct sigaction action;
        if (!sigaction(i, 0, &action) && action.sa_handler == SIG_IGN)
            printf("%d ignored\n", i);
        if (sigismember(&blocked, i))
            printf("%d blocked\n", i);
    }
    return 0;
}
