/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_PREEMPT_H
#define _SHIM_LINUX_PREEMPT_H

static inline void preempt_disable(void)
{
}

static inline void preempt_enable(void)
{
}

#endif
