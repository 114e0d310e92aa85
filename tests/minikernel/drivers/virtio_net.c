/* SPDX-License-Identifier: GPL-2.0-only */
int virtio_net = 1;
