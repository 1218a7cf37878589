/* SPDX-License-Identifier: GPL-2.0 */
/* Long-term pins, by the kernel's gup_test, which reads pages by their place in memory. */
#ifndef _FBMM_PIN_H
#define _FBMM_PIN_H

#include "lab.h"

#include <linux/types.h>
#include <sys/ioctl.h>

/* From mm/gup_test.h, which is not installed */
struct pin {
	__u64 addr, size;
	__u32 flags;
};

#define PIN_START	_IOW('g', 7, struct pin)
#define PIN_STOP	_IO('g', 8)
#define PIN_READ	_IOW('g', 9, __u64)
#define PIN_WRITABLE	1
#define PIN_FAST	2

static int gup_test;

static inline bool pin_open(void)
{
	gup_test = open("/sys/kernel/debug/gup_test", O_RDWR);
	return gup_test >= 0;
}

static inline bool pin(char *memory, size_t size, unsigned int how)
{
	struct pin pin = { (uintptr_t)memory, size, PIN_WRITABLE | how };

	return !ioctl(gup_test, PIN_START, &pin);
}

static inline void unpin(void)
{
	ioctl(gup_test, PIN_STOP);
}

/* What the pinned pages hold now. */
static inline const char *pinned(size_t size)
{
	static char *copy;
	__u64 addr;

	if (!copy)
		copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	addr = (uintptr_t)copy;
	if (ioctl(gup_test, PIN_READ, &addr))
		fail("PIN_READ");
	return copy;
}

#endif /* _FBMM_PIN_H */
