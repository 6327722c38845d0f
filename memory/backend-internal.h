/*
 * The fields of memory back ends. Internal to memory/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MEMORY_BACKEND_INTERNAL_H
#define COWBIRD_MEMORY_BACKEND_INTERNAL_H

#include "memory/backend.h"

/* Nodes a host can have here: one word of a node mask. */
#define HOST_NODES_MAX 64

struct _RamBackend {
    Object parent_instance;
    uint64_t size;
    bool share;
    bool prealloc;
    uint32_t prealloc_threads;
    bool reserve;
    bool merge;
    bool dump;
    int policy;          /* HostMemPolicy */
    uint64_t host_nodes; /* one bit a node */
    bool canonical_name;
    bool in_use;
};

struct _RamBackendClass {
    ObjectClass parent_class;
    /* Map size bytes; the block's flags are set as far as they depend on the kind of back end. */
    RamBlock *(*map)(RamBackend *backend, const char *name, GError **errp);
};

/*
 * Map @size bytes of @fd (taken over) at a host address aligned to @align, as the back end's share says.
 */
typedef struct BackendFile {
    int fd;
    uint64_t offset;
    uint64_t page_size; /* of the file system */
    uint64_t align;     /* 0 = none asked for */
    bool readonly;
} BackendFile;
RamBlock *ram_backend_map_fd(RamBackend *backend, const char *name, const BackendFile *file,
                             GError **errp);

#endif
