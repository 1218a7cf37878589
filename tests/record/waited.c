// Children that a signal kills, and that waitid or wait4 waits for: a process each, in this order.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t killed_by(int signal)
{
    pid_t child = fork();

    if (!child) {
        raise(signal);
        _exit(1);
    }
    return child;
}

int main(void)
{
    siginfo_t about;
    int status;

    waitid(P_PID, killed_by(SIGTERM), &about, WEXITED);
    if (about.si_code != CLD_KILLED || about.si_status != SIGTERM)
        return 1;
    waitid(P_ALL, killed_by(SIGUSR1), &about, WEXITED);
    waitpid(killed_by(SIGALRM), &status, 0);
    return WTERMSIG(status) == SIGALRM ? 0 : 2;
}
