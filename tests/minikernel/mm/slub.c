/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/mini.h>

static int calculate_order(int objects)
{
	return clamp(objects, MINI_ORDER);
}

int slub_order(int objects)
{
	return calculate_order(objects);
}
