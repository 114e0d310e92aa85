/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/mini.h>

int clamp(int value, int most)
{
	return value > most ? most : value;
}
