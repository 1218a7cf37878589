// Starts environment.c's program with its arguments by an open file that execve closes: a copy in memory, the file
// itself, its folder, or /proc/self/fd; the last starts itself that way again before. KIND PROGRAM ARGUMENTS.
#define _GNU_SOURCE
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static int copy(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC), memory = memfd_create("copy", MFD_CLOEXEC);
    struct stat about;

    fstat(file, &about);
    for (off_t at = 0; at < about.st_size;)
        sendfile(memory, file, &at, about.st_size);
    close(file);
    return memory;
}

int main(int count, char **words)
{
    const char *kind = words[1];
    char path[64], *program = words[2];

    if (count < 3)
        return 8;
    if (!strcmp(kind, "memory"))
        fexecve(copy(program), words + 2, environ);
    else if (!strcmp(kind, "file"))
        fexecve(open(program, O_RDONLY | O_CLOEXEC), words + 2, environ);
    else if (!strcmp(kind, "folder")) {
        char name[4096];
        strcpy(name, basename(strdup(program)));
        int folder = open(dirname(strdup(program)), O_PATH | O_CLOEXEC);
        syscall(SYS_execveat, folder, name, words + 2, environ, 0);
    } else if (!strcmp(kind, "path")) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", open(program, O_RDONLY | O_CLOEXEC));
        execve(path, words + 2, environ);
    } else if (!strcmp(kind, "itself")) {
        words[1] = "again";
        fexecve(copy("/proc/self/exe"), words, environ);
    } else if (!strcmp(kind, "again")) {
        words[1] = "memory";
        execve("/proc/self/exe", words, environ);
    } else if (!strcmp(kind, "open")) {
        // What is open in a program that was started this way, beyond what the shell opens.
        int open_files = 0;
        for (int each = 3; each < 65536; each++)
            open_files += fcntl(each, F_GETFD) >= 0 && !(fcntl(each, F_GETFD) & FD_CLOEXEC);
        return 20 + open_files;
    }
    perror(kind);
    return 9;
}
