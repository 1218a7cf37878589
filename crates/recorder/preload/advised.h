/* Memory of its own for the allocation sites that PAGELAB_SITES=huge:FILE+OFFSET;... names. */
#ifndef PAGELAB_ADVISED_H
#define PAGELAB_ADVISED_H

#include <stddef.h>

/* Reads `WAY:` and the sites, `FILE+OFFSET` with semicolons between: the file's last name and the return
 * address' offset in it, hexadecimal. The ways are `huge`, huge pages as the kernel gives them to who asks;
 * `collapse`, huge pages at once, whatever the kernel's setting (MADV_COLLAPSE, Linux 6.1); `populate`, base
 * pages at once (MADV_POPULATE_WRITE, Linux 5.14). False if nothing is advised. */
int advised_set_up(const char *sites);

/* True if the call that returns there is named. */
int advised_site(const void *caller);

/* Memory of a named site, aligned to a power of two from 16 on; zeros if wanted. NULL if there is none. */
void *advised_take(size_t size, size_t alignment, int zeroed);

/* True for what that gave. */
int advised_has(const void *memory);

/* The bytes that it may use. */
size_t advised_size(const void *memory);

void advised_give_back(void *memory);

/* A mapping of a named site. */
void advised_map(void *memory, size_t length);

#endif
