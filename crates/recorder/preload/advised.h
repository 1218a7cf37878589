/* Memory in huge pages for the allocation sites that PAGELAB_SITES=huge:FILE+OFFSET;... names. */
#ifndef PAGELAB_ADVISED_H
#define PAGELAB_ADVISED_H

#include <stddef.h>

/* Reads the sites, `FILE+OFFSET` with semicolons between: the file's last name and the return
 * address' offset in it, hexadecimal. Nothing is advised where they cannot be read. */
void advised_set_up(const char *sites);

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
