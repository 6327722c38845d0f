/*
 * Walking a table of fields: saving, loading, subsections.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "vmstate/vmstate.h"

#include <string.h>

#include "util/error.h"
#include "vmstate/vmstate-internal.h"

/* The byte before a subsection, and how deep tables from a file may nest. */
#define SUBSECTION_MARK 0x05
#define SUBSECTION_DEPTH_MAX 16

bool vmstate_field_present(const VMStateField *f, void *opaque, int version)
{
    return version >= f->version_id && (!f->field_exists || f->field_exists(opaque, version));
}

uint32_t vmstate_field_count(const VMStateField *f, const void *opaque)
{
    if (f->flags & VMS_VARRAY_UINT32) {
        uint32_t n = *(const uint32_t *)((const char *)opaque + f->num_offset);

        return f->flags & VMS_ALLOC ? n : MIN(n, f->num);
    }
    return f->num;
}

void *vmstate_field_data(const VMStateField *f, void *opaque)
{
    void *p = (char *)opaque + f->offset;

    return f->flags & (VMS_ALLOC | VMS_POINTER) ? *(void **)p : p;
}

const VMStateDescription *vmstate_field_table(const VMStateField *f, void *element)
{
    return f->choose ? f->choose(element) : f->vmsd;
}

/* Bytes are the same in memory and on the wire: all at once. */
static bool is_bytes(const VMStateField *f)
{
    return f->info == &vmstate_info_uint8;
}

static void save_field(GByteArray *out, const VMStateField *f, void *opaque)
{
    uint32_t n = vmstate_field_count(f, opaque);
    char *p = vmstate_field_data(f, opaque);

    if (is_bytes(f)) {
        g_byte_array_append(out, (const uint8_t *)p, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++, p += f->size) {
        if (f->flags & VMS_STRUCT) {
            vmstate_save(out, vmstate_field_table(f, p), p);
        } else {
            f->info->put(out, p, f->size);
        }
    }
}

static void save_subsections(GByteArray *out, const VMStateDescription *vmsd, void *opaque)
{
    for (const VMStateDescription *const *s = vmsd->subsections; s && *s; s++) {
        if ((*s)->needed && !(*s)->needed(opaque)) {
            continue;
        }
        byte_array_put_u8(out, SUBSECTION_MARK);
        byte_array_put_counted_string(out, (*s)->name);
        byte_array_put_be32(out, (*s)->version_id);
        vmstate_save(out, *s, opaque);
    }
}

void vmstate_save(GByteArray *out, const VMStateDescription *vmsd, void *opaque)
{
    if (vmsd->pre_save) {
        vmsd->pre_save(opaque);
    }
    for (const VMStateField *f = vmsd->fields; f->name; f++) {
        if (vmstate_field_present(f, opaque, vmsd->version_id)) {
            save_field(out, f, opaque);
        }
    }
    save_subsections(out, vmsd, opaque);
}

static bool load_table(ByteReader *in, const VMStateDescription *vmsd, void *opaque, int version,
                       unsigned depth, GError **errp);

/*
 * The least an element takes on the wire, so that a length can be refused before memory is
 * allocated for it.
 */
static size_t least_wire_size(const VMStateField *f)
{
    size_t total = 0;

    if (!(f->flags & VMS_STRUCT)) {
        return f->info == &vmstate_info_bool ? 1 : f->size;
    }
    for (const VMStateField *inner = f->choose ? NULL : f->vmsd->fields; inner && inner->name;
         inner++) {
        if (!inner->field_exists && !(inner->flags & VMS_VARRAY_UINT32)) {
            total += inner->num * least_wire_size(inner);
        }
    }
    return MAX(total, 1);
}

static bool make_room(const ByteReader *in, const VMStateField *f, void *opaque, GError **errp)
{
    uint32_t n = *(const uint32_t *)((const char *)opaque + f->num_offset);

    if (!(f->flags & VMS_ALLOC)) {
        if (n > f->num) {
            error_set(errp, "%u elements do not fit into %u", n, f->num);
            return false;
        }
        return true;
    }
    if (n > byte_reader_left(in) / least_wire_size(f)) {
        error_set(errp, "%u elements cannot be in the %zu bytes left", n, byte_reader_left(in));
        return false;
    }
    void **p = (void **)((char *)opaque + f->offset);
    g_free(*p);
    *p = g_malloc0_n(n, f->size);
    return true;
}

static bool load_field(ByteReader *in, const VMStateField *f, void *opaque, unsigned depth,
                       GError **errp)
{
    if ((f->flags & VMS_VARRAY_UINT32) && !make_room(in, f, opaque, errp)) {
        return false;
    }
    uint32_t n = vmstate_field_count(f, opaque);
    char *p = vmstate_field_data(f, opaque);

    if (is_bytes(f)) {
        return byte_reader_get_bytes(in, p, n, errp);
    }
    for (uint32_t i = 0; i < n; i++, p += f->size) {
        if (f->flags & VMS_STRUCT) {
            const VMStateDescription *table = vmstate_field_table(f, p);

            if (!load_table(in, table, p, table->version_id, depth, errp)) {
                return false;
            }
        } else if (!f->info->get(in, p, f->size, errp)) {
            return false;
        }
    }
    return true;
}

static const VMStateDescription *find_subsection(const VMStateDescription *vmsd, const char *name)
{
    for (const VMStateDescription *const *s = vmsd->subsections; s && *s; s++) {
        if (g_str_equal((*s)->name, name)) {
            return *s;
        }
    }
    return NULL;
}

/*
 * The name of the subsection of @vmsd that begins here, its mark and name consumed; NULL if what
 * follows is something else, which is then left for whoever reads on. A subsection is recognised
 * by its name, which begins with its parent's.
 */
static char *next_subsection(ByteReader *in, const VMStateDescription *vmsd)
{
    ByteReader peek = *in;
    g_autofree char *name = NULL;
    size_t prefix = strlen(vmsd->name);
    uint8_t mark;

    if (!byte_reader_get_u8(&peek, &mark, NULL) || mark != SUBSECTION_MARK ||
        !byte_reader_get_counted_string(&peek, &name, NULL)) {
        return NULL;
    }
    if (strncmp(name, vmsd->name, prefix) != 0 || name[prefix] != '/') {
        return NULL;
    }
    *in = peek;
    return g_steal_pointer(&name);
}

static bool load_subsections(ByteReader *in, const VMStateDescription *vmsd, void *opaque,
                             unsigned depth, GError **errp)
{
    for (;;) {
        g_autofree char *name = next_subsection(in, vmsd);
        const VMStateDescription *sub;
        uint32_t version;

        if (!name) {
            return true;
        }
        sub = find_subsection(vmsd, name);
        if (!sub) {
            error_set(errp, "unknown subsection '%s'", name);
            return false;
        }
        if (depth >= SUBSECTION_DEPTH_MAX) {
            error_set(errp, "subsection '%s' nests too deep", name);
            return false;
        }
        if (!byte_reader_get_be32(in, &version, errp) ||
            !load_table(in, sub, opaque, MIN(version, INT_MAX), depth + 1, errp)) {
            return false;
        }
    }
}

static bool version_acceptable(const VMStateDescription *vmsd, int version, GError **errp)
{
    if (version > vmsd->version_id || version < vmsd->minimum_version_id) {
        error_set(errp, "'%s' is of version %d, only %d to %d can be read", vmsd->name, version,
                  vmsd->minimum_version_id, vmsd->version_id);
        return false;
    }
    return true;
}

static bool load_table(ByteReader *in, const VMStateDescription *vmsd, void *opaque, int version,
                       unsigned depth, GError **errp)
{
    if (!version_acceptable(vmsd, version, errp) ||
        (vmsd->pre_load && !vmsd->pre_load(opaque, errp))) {
        return false;
    }
    for (const VMStateField *f = vmsd->fields; f->name; f++) {
        if (vmstate_field_present(f, opaque, version) && !load_field(in, f, opaque, depth, errp)) {
            g_prefix_error(errp, "%s.%s: ", vmsd->name, f->name);
            return false;
        }
    }
    return load_subsections(in, vmsd, opaque, depth, errp) &&
           (!vmsd->post_load || vmsd->post_load(opaque, version, errp));
}

bool vmstate_load(ByteReader *in, const VMStateDescription *vmsd, void *opaque, int version,
                  GError **errp)
{
    return load_table(in, vmsd, opaque, version, 0, errp);
}
