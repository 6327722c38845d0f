/*
 * Memory back ends: what all kinds have in common.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memory/backend-internal.h"

#include "qapi/qapi-types.h"
#include "util/error.h"
#include "util/json.h"
#include "util/kernel-uapi.h"
#include "util/units.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PREALLOC_THREADS_MAX 64

QOM_DEFINE_ABSTRACT_TYPE(RamBackend, ram_backend, "memory-backend", TYPE_OBJECT)

const QomType ram_backend_types[] = {
    { .name = "memory-backend", .get_type = ram_backend_get_type },
    { .name = "memory-backend-ram", .get_type = ram_backend_ram_get_type },
    { .name = "memory-backend-file", .get_type = ram_backend_file_get_type },
    { .name = "memory-backend-memfd", .get_type = ram_backend_memfd_get_type },
    { .name = NULL },
};

uint64_t ram_backend_size(RamBackend *backend)
{
    return backend->size;
}

bool ram_backend_in_use(RamBackend *backend)
{
    return backend->in_use;
}

/* --- host-nodes --- */

static json_object *host_nodes_get(Object *obj, GError **errp)
{
    json_object *list = json_object_new_array();

    for (unsigned node = 0; node < HOST_NODES_MAX; node++) {
        if (RAM_BACKEND(obj)->host_nodes >> node & 1) {
            json_object_array_add(list, json_object_new_int(node));
        }
    }
    return list;
}

static bool add_node_range(uint64_t *nodes, uint64_t first, uint64_t last, GError **errp)
{
    if (first > last || last >= HOST_NODES_MAX) {
        error_set(errp,
                  "host-nodes: %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT
                  " are no NUMA nodes; nodes are 0 to %d",
                  first, last, HOST_NODES_MAX - 1);
        return false;
    }
    for (uint64_t node = first; node <= last; node++) {
        *nodes |= UINT64_C(1) << node;
    }
    return true;
}

/* "0", "0-3": as command lines have it. */
static bool add_nodes_text(uint64_t *nodes, const char *text, GError **errp)
{
    char *end;
    uint64_t first, last;

    first = last = g_ascii_strtoull(text, &end, 10);
    if (end != text && *end == '-') {
        const char *second = end + 1;

        last = g_ascii_strtoull(second, &end, 10);
        end = end == second ? (char *)text : end;
    }
    if (end == text || *end != '\0' || !g_ascii_isdigit(text[0])) {
        error_set(errp, "host-nodes: '%s' is no NUMA node and no range of nodes such as 0-3", text);
        return false;
    }
    return add_node_range(nodes, first, last, errp);
}

static bool add_nodes(uint64_t *nodes, json_object *value, GError **errp)
{
    if (json_object_is_type(value, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(value); i++) {
            if (!add_nodes(nodes, json_object_array_get_idx(value, i), errp)) {
                return false;
            }
        }
        return true;
    }
    if (json_object_is_type(value, json_type_int)) {
        uint64_t node = json_object_get_uint64(value);

        return add_node_range(nodes, node, node, errp);
    }
    return add_nodes_text(nodes, json_object_get_string(value), errp);
}

static bool host_nodes_set(Object *obj, json_object *value, GError **errp)
{
    uint64_t nodes = 0;

    if (!add_nodes(&nodes, value, errp)) {
        return false;
    }
    RAM_BACKEND(obj)->host_nodes = nodes;
    return true;
}

static bool bind_nodes(RamBackend *backend, RamBlock *block, GError **errp)
{
    static const int modes[] = {
        [HOST_MEM_POLICY_DEFAULT] = MPOL_DEFAULT,
        [HOST_MEM_POLICY_PREFERRED] = MPOL_PREFERRED,
        [HOST_MEM_POLICY_BIND] = MPOL_BIND,
        [HOST_MEM_POLICY_INTERLEAVE] = MPOL_INTERLEAVE,
    };

    if (backend->policy == HOST_MEM_POLICY_DEFAULT) {
        return true;
    }
    /* maxnode counts one more than the kernel looks at (mbind(2), BUGS). */
    if (syscall(SYS_mbind, block->host, block->size, modes[backend->policy], &backend->host_nodes,
                HOST_NODES_MAX + 1, MPOL_MF_STRICT | MPOL_MF_MOVE) < 0) {
        error_set_errno(errp, errno, "RAM block '%s': cannot place it on the host's NUMA nodes",
                        block->name);
        return false;
    }
    block->numa_policy = true;
    return true;
}

/* --- Preallocation --- */

typedef struct Populate {
    uint8_t *start;
    uint64_t length;
    uint64_t page_size;
    int err;
} Populate;

static gpointer populate_thread(gpointer opaque)
{
    Populate *p = opaque;

    if (p->length && madvise(p->start, p->length, MADV_POPULATE_WRITE) < 0) {
        p->err = errno;
    }
    return NULL;
}

static bool preallocate(RamBackend *backend, RamBlock *block, GError **errp)
{
    unsigned n = backend->prealloc_threads;
    uint64_t part = ROUND_UP(DIV_ROUND_UP(block->size, n), (uint64_t)block->page_size);
    Populate parts[PREALLOC_THREADS_MAX] = { 0 };
    GThread *threads[PREALLOC_THREADS_MAX];
    int err = 0;

    for (unsigned i = 0; i < n; i++) {
        uint64_t from = MIN(block->size, i * part);

        parts[i].start = block->host + from;
        parts[i].length = MIN(part, block->size - from);
        threads[i] = g_thread_new("prealloc", populate_thread, &parts[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        g_thread_join(threads[i]);
        err = err ? err : parts[i].err;
    }
    if (err) {
        error_set_errno(errp, err,
                        "RAM block '%s': the host cannot give all of its %" G_GUINT64_FORMAT
                        " MiB at once (prealloc=on)",
                        block->name, block->size / MiB);
        return false;
    }
    block->prealloc = true;
    return true;
}

/* --- Making the block --- */

static bool apply_flags(RamBackend *backend, RamBlock *block, GError **errp)
{
    block->dump = backend->dump;
    block->reserve = backend->reserve;
    if (backend->dump && madvise(block->host, block->size, MADV_DODUMP) < 0) {
        error_set_errno(errp, errno, "RAM block '%s': cannot keep it in core dumps", block->name);
        return false;
    }
    if (!ram_block_apply_policy(block, 0, block->size, errp)) {
        return false;
    }
    if (backend->merge) {
        if (madvise(block->host, block->size, MADV_MERGEABLE) < 0) {
            error_set_errno(errp, errno, "RAM block '%s': the host cannot merge pages (merge=on)",
                            block->name);
            return false;
        }
        block->merge = true;
    }
    return bind_nodes(backend, block, errp) &&
           (!backend->prealloc || preallocate(backend, block, errp));
}

RamBlock *ram_backend_alloc(RamBackend *backend, const char *name, GError **errp)
{
    g_autofree char *path = backend->canonical_name ? object_path(OBJECT(backend)) : NULL;
    g_autoptr(RamBlock) block = NULL;

    if (backend->in_use) {
        error_set(errp, "Memory backend '%s' is in use already", OBJECT(backend)->name);
        return NULL;
    }
    block = RAM_BACKEND_GET_CLASS(backend)->map(backend, path ? path : name, errp);
    if (!block || !apply_flags(backend, block, errp)) {
        return NULL;
    }
    backend->in_use = true;
    return g_steal_pointer(&block);
}

RamBlock *ram_backend_map_fd(RamBackend *backend, const char *name, const BackendFile *file,
                             GError **errp)
{
    uint64_t size = ROUND_UP(backend->size, file->page_size);
    uint64_t align = MAX(file->align, file->page_size);
    int flags = MAP_FIXED | (backend->share ? MAP_SHARED : MAP_PRIVATE) |
                (backend->reserve ? 0 : MAP_NORESERVE);
    void *host = ram_reserve_address_space(size, align, errp);
    RamBlock *block;

    if (!host) {
        close(file->fd);
        return NULL;
    }
    block = ram_block_new_from_mapping(name, host, size,
                                       backend->share ? RAM_SHARED : RAM_BACKEND_FILE, file->fd);
    block->fd_offset = file->offset;
    block->page_size = file->page_size;
    block->hugetlb = file->page_size > (uint64_t)sysconf(_SC_PAGESIZE);
    block->readonly = file->readonly;
    if (mmap(host, size, PROT_READ | (file->readonly ? 0 : PROT_WRITE), flags, file->fd,
             file->offset) == MAP_FAILED) {
        error_set_errno(errp, errno, "RAM block '%s': cannot map %" G_GUINT64_FORMAT " MiB%s", name,
                        size / MiB,
                        block->hugetlb ? " of hugetlb pages; reserve some (vm.nr_hugepages)" : "");
        ram_block_free(block);
        return NULL;
    }
    return block;
}

/* --- The class --- */

static bool ram_backend_complete(Object *obj, GError **errp)
{
    RamBackend *backend = RAM_BACKEND(obj);
    bool has_policy = backend->policy != HOST_MEM_POLICY_DEFAULT;

    if (backend->size == 0) {
        error_set(errp, "A memory backend needs a size: give size=SIZE, such as size=2G");
        return false;
    }
    if (backend->prealloc_threads == 0 || backend->prealloc_threads > PREALLOC_THREADS_MAX) {
        error_set(errp, "prealloc-threads=%u is not between 1 and %d", backend->prealloc_threads,
                  PREALLOC_THREADS_MAX);
        return false;
    }
    if (has_policy != (backend->host_nodes != 0)) {
        error_set(errp,
                  has_policy ? "policy=%s needs host-nodes"
                             : "host-nodes needs a policy other than %s",
                  host_mem_policy_str(backend->policy));
        return false;
    }
    return true;
}

static bool ram_backend_can_delete(Object *obj, GError **errp)
{
    if (RAM_BACKEND(obj)->in_use) {
        error_set(errp, "Memory backend '%s' is in use by the machine", obj->name);
        return false;
    }
    return true;
}

#define FIELD(name) offsetof(RamBackend, name)

static const QomProperty ram_backend_properties[] = {
    { .name = "size", .kind = QOM_SIZE, .offset = FIELD(size), .description = "bytes" },
    { .name = "share",
      .kind = QOM_BOOL,
      .offset = FIELD(share),
      .description = "other processes may map it and see writes" },
    { .name = "prealloc",
      .kind = QOM_BOOL,
      .offset = FIELD(prealloc),
      .description = "take all pages from the host at once" },
    { .name = "prealloc-threads",
      .kind = QOM_UINT32,
      .offset = FIELD(prealloc_threads),
      .def = 1,
      .description = "threads that take them" },
    { .name = "reserve",
      .kind = QOM_BOOL,
      .offset = FIELD(reserve),
      .description = "have the host account for all of it at once" },
    { .name = "merge",
      .kind = QOM_BOOL,
      .offset = FIELD(merge),
      .description = "let the host merge equal pages (KSM)" },
    { .name = "dump",
      .kind = QOM_BOOL,
      .offset = FIELD(dump),
      .description = "keep it in core dumps of this process" },
    { .name = "host-nodes",
      .kind = QOM_CUSTOM,
      .get = host_nodes_get,
      .set = host_nodes_set,
      .type_name = "int",
      .description = "NUMA nodes of the host" },
    { .name = "policy",
      .kind = QOM_ENUM,
      .offset = FIELD(policy),
      .enum_type = &qapi_type_HostMemPolicy,
      .description = "how the nodes are used" },
    { .name = "x-use-canonical-path-for-ramblock-id",
      .kind = QOM_BOOL,
      .offset = FIELD(canonical_name),
      .description = "name the RAM block by the object's path" },
    QOM_PROPERTY_END,
};

static void ram_backend_init(RamBackend *backend)
{
}

static void ram_backend_class_init(RamBackendClass *klass)
{
    ObjectClass *object = OBJECT_CLASS(klass);

    object->complete = ram_backend_complete;
    object->can_delete = ram_backend_can_delete;
    qom_class_install(klass, ram_backend_properties);
}
