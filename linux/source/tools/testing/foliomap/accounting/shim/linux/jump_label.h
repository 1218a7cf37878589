/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_JUMP_LABEL_H
#define _SHIM_LINUX_JUMP_LABEL_H

#include <linux/types.h>

#undef __always_inline
#define __always_inline			inline __attribute__((__always_inline__))
#define DECLARE_STATIC_KEY_FALSE(key)	extern bool key
#define DEFINE_STATIC_KEY_FALSE(key)	bool key
#define static_branch_unlikely(key)	(*(key))

#endif
