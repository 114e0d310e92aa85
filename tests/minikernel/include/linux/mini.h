/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MINI_H
#define MINI_H

#define MINI_ORDER 3

int slub_order(int objects);
int clamp(int value, int most);

#endif
