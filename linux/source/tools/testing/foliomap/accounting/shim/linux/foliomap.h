/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's own; its folder is not searched, the C library has headers of the same names. */
#include "../../../../../../include/linux/foliomap.h"
