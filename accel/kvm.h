/*
 * What the files of the KVM accelerator share. Nobody outside accel/ includes it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_ACCEL_KVM_H
#define COWBIRD_ACCEL_KVM_H

#include "accel/accel.h"

#endif
