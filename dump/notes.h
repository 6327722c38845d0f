/*
 * The ELF notes of a dump: the registers of each CPU.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_DUMP_NOTES_H
#define COWBIRD_DUMP_NOTES_H

#include "accel/accel.h"

/*
 * For each CPU a note NT_PRSTATUS ("CORE") of what the System V ABI has of registers, then for each one of the name
 * "QEMU" with the control registers and descriptor tables, by which debuggers find the kernel. The VM is
 * stopped. @accel NULL: no CPU. The caller frees the result; NULL on error.
 */
GByteArray *dump_notes_new(Accel *accel, GError **errp);

#endif
