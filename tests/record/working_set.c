#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* A table of 32 MiB, read and written at places of which few are asked for often. */
int main(int argc, char **argv) {
  size_t pages = argc > 1 ? atoi(argv[1]) : 8192, n = argc > 2 ? atoi(argv[2]) : 60000;
  char *m = aligned_alloc(2 << 20, pages * 4096);
  for (size_t i = 0; i < pages; i++) m[i * 4096] = (char)i;
  unsigned long s = 88172645463325252UL, sum = 0;
  for (size_t i = 0; i < n; i++) {
    s ^= s << 13; s ^= s >> 7; s ^= s << 17;
    double u = (s >> 11) * (1.0 / 9007199254740992.0);
    size_t p = (size_t)(pages * u * u * u * u) ;   /* skewed */
    m[p * 4096 + (s & 4095 & ~7)] += 1; sum += m[p*4096];
  }
  printf("%lu\n", sum); return 0;
}
