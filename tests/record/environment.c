// Says whether a variable of its environment has a value: NAME VALUE.
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    const char *value = count == 3 ? getenv(words[1]) : 0;
    return value && !strcmp(value, words[2]) ? 3 : 4;
}
