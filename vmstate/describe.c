/*
 * The JSON description of a saved table, in the layout that QEMU's analyze-migration reads: an
 * array of plain elements is one entry with array_len, an array whose elements may differ in
 * length is one entry per element with its index.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "vmstate/vmstate-internal.h"

#include <string.h>

/* True if every element takes the same room, whatever it holds. */
static bool table_is_uniform(const VMStateDescription *vmsd)
{
    if (vmsd->subsections && vmsd->subsections[0]) {
        return false;
    }
    for (const VMStateField *f = vmsd->fields; f->name; f++) {
        if (f->field_exists || (f->flags & VMS_VARRAY_UINT32) ||
            ((f->flags & VMS_STRUCT) && (f->choose || !table_is_uniform(f->vmsd)))) {
            return false;
        }
    }
    return true;
}

static size_t wire_size(const VMStateDescription *vmsd, void *opaque);

static size_t element_wire_size(const VMStateField *f, void *element)
{
    if (f->flags & VMS_STRUCT) {
        return wire_size(vmstate_field_table(f, element), element);
    }
    return f->info == &vmstate_info_bool ? 1 : f->size;
}

static size_t subsections_wire_size(const VMStateDescription *vmsd, void *opaque)
{
    size_t total = 0;

    for (const VMStateDescription *const *s = vmsd->subsections; s && *s; s++) {
        if (!(*s)->needed || (*s)->needed(opaque)) {
            total += 2 + strlen((*s)->name) + 4 + wire_size(*s, opaque);
        }
    }
    return total;
}

static size_t wire_size(const VMStateDescription *vmsd, void *opaque)
{
    size_t total = subsections_wire_size(vmsd, opaque);

    for (const VMStateField *f = vmsd->fields; f->name; f++) {
        if (!vmstate_field_present(f, opaque, vmsd->version_id)) {
            continue;
        }
        uint32_t n = vmstate_field_count(f, opaque);
        char *p = vmstate_field_data(f, opaque);

        for (uint32_t i = 0; i < n; i++, p += f->size) {
            total += element_wire_size(f, p);
        }
    }
    return total;
}

static json_object *describe_element(const VMStateField *f, void *element)
{
    json_object *o = json_object_new_object();

    json_object_object_add(o, "name", json_object_new_string(f->name));
    if (f->flags & VMS_STRUCT) {
        json_object_object_add(o, "type", json_object_new_string("struct"));
        json_object_object_add(o, "struct",
                               vmstate_describe(vmstate_field_table(f, element), element));
    } else {
        json_object_object_add(o, "type", json_object_new_string(f->info->name));
    }
    json_object_object_add(o, "size", json_object_new_uint64(element_wire_size(f, element)));
    return o;
}

static void describe_field(json_object *fields, const VMStateField *f, void *opaque)
{
    uint32_t n = vmstate_field_count(f, opaque);
    char *p = vmstate_field_data(f, opaque);
    bool is_array = f->flags & (VMS_ARRAY | VMS_VARRAY_UINT32);
    bool uniform = !(f->flags & VMS_STRUCT) || (!f->choose && table_is_uniform(f->vmsd));

    for (uint32_t i = 0; i < n; i++, p += f->size) {
        json_object *o = describe_element(f, p);

        json_object_array_add(fields, o);
        if (is_array && uniform && n > 1) {
            json_object_object_add(o, "array_len", json_object_new_int64(n));
            return;
        }
        if (is_array && n > 1) {
            json_object_object_add(o, "index", json_object_new_int64(i));
        }
    }
}

json_object *vmstate_describe(const VMStateDescription *vmsd, void *opaque)
{
    json_object *o = json_object_new_object();
    json_object *fields = json_object_new_array();
    json_object *subsections = NULL;

    json_object_object_add(o, "vmsd_name", json_object_new_string(vmsd->name));
    json_object_object_add(o, "version", json_object_new_int(vmsd->version_id));
    json_object_object_add(o, "fields", fields);
    for (const VMStateField *f = vmsd->fields; f->name; f++) {
        if (vmstate_field_present(f, opaque, vmsd->version_id)) {
            describe_field(fields, f, opaque);
        }
    }
    for (const VMStateDescription *const *s = vmsd->subsections; s && *s; s++) {
        if ((*s)->needed && !(*s)->needed(opaque)) {
            continue;
        }
        if (!subsections) {
            subsections = json_object_new_array();
            json_object_object_add(o, "subsections", subsections);
        }
        json_object_array_add(subsections, vmstate_describe(*s, opaque));
    }
    return o;
}
