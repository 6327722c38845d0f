/*
 * Memory back ends: the objects memory-backend-ram, memory-backend-file and memory-backend-memfd,
 * with QEMU's properties. A back end is set up by its properties and then makes one RAM block.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_BACKEND_H
#define COWBIRD_MEMORY_BACKEND_H

#include "memory/ram-block.h"
#include "qom/object.h"

/* The types, for the table of types: abstract "memory-backend" and its three kinds. */
#define TYPE_RAM_BACKEND (ram_backend_get_type())
QOM_DECLARE_TYPE(RamBackend, ram_backend, RAM_BACKEND)
GType ram_backend_ram_get_type(void);
GType ram_backend_file_get_type(void);
GType ram_backend_memfd_get_type(void);

/* All of the above, ended by a line without name. */
extern const QomType ram_backend_types[];

/* Bytes, as given by the property size. */
uint64_t ram_backend_size(RamBackend *backend);

/*
 * Make the block that the properties describe, named @name (the machine's name such as "pc.ram", or
 * the id of the object). A back end gives one block only: the second call is an error, as a guest's
 * memory cannot be used twice. The caller adds the block to the list of blocks and so owns it.
 */
RamBlock *ram_backend_alloc(RamBackend *backend, const char *name, GError **errp);

/* True once ram_backend_alloc() has succeeded: the object cannot be deleted then. */
bool ram_backend_in_use(RamBackend *backend);

#endif
