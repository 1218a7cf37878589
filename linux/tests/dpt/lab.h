/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of the distributed page table have in common. */
#ifndef _DPT_LAB_H
#define _DPT_LAB_H

#include "../fbmm/lab.h"

#define STATS "/sys/kernel/debug/dpt/stats"
#define REGION (2ul << 20)

/* A counter; those that were never counted are 0. */
static inline unsigned long counter(const char *name)
{
	unsigned long value, found = 0;
	char line[128];
	FILE *file = fopen(STATS, "r");

	if (!file)
		fail(STATS);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ' &&
		    sscanf(line + strlen(name), "%lu", &value) == 1)
			found = value;
	fclose(file);
	return found;
}

/* How many tables there are. */
static inline unsigned long tables(void)
{
	return counter("tables") - counter("tables_freed");
}

#endif /* _DPT_LAB_H */
