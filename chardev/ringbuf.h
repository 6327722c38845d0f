/*
 * Reading what a ringbuf chardev has kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_CHARDEV_RINGBUF_H
#define COWBIRD_CHARDEV_RINGBUF_H

#include "chardev/chardev.h"

/* Take up to max of the oldest bytes; owned by the caller. NULL when chr is no ringbuf. */
GByteArray *chardev_ringbuf_take(Chardev *chr, uint64_t max, GError **errp);

#endif
