// A library that notes in the file LOADED each time it is loaded.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
    int file = open(getenv("LOADED"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(file, "x", 1) != 1)
        _exit(9);
    close(file);
}
