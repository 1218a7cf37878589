// Children that are forked by who is killed before fork() has returned to it, or soon after; told by a pipe.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORPHANS 20
volatile long places[512];

int main(void)
{
    for (int orphan = 0; orphan < ORPHANS; orphan++) {
        int ends[2];
        if (pipe(ends))
            return 1;
        pid_t parent = fork();
        if (parent == 0) {
            pid_t self = getpid();
            if (fork() == 0) {
                kill(self, SIGKILL);
                for (int i = 0; i < 512; i++)
                    places[i] = i;
                _exit(9);
            }
            for (;;)
                pause();
        }
        int status;
        if (waitpid(parent, &status, 0) != parent || !WIFSIGNALED(status))
            return 2;
        // The orphan has the other end until it ends.
        close(ends[1]);
        char none;
        if (read(ends[0], &none, 1) != 0)
            return 3;
        close(ends[0]);
    }
    return 7;
}
