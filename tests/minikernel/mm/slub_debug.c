/* SPDX-License-Identifier: GPL-2.0-only */
int slub_debug = 1;
