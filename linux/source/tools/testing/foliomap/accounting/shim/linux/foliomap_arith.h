/* SPDX-License-Identifier: GPL-2.0 */
#include "../../../../../../include/linux/foliomap_arith.h"
