/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/mini.h>

const char banner[] = "Linux version 5.10.0 (miniature)";

void start_kernel(void)
{
	volatile int order = slub_order(CONFIG_NR_CPUS);

	while (order)
		order = clamp(order, 1);
}
