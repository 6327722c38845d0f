/*
 * The ordered list of those who take part in saving the state of the machine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "vmstate/registry.h"

#include <string.h>

#include "util/error.h"

struct VMStateRegistry {
    GPtrArray *entries; /* of VMStateEntry, in save order */
};

static void entry_free(void *p)
{
    VMStateEntry *e = p;

    g_free(e->idstr);
    g_free(e);
}

VMStateRegistry *vmstate_registry_new(void)
{
    VMStateRegistry *r = g_new0(VMStateRegistry, 1);

    r->entries = g_ptr_array_new_with_free_func(entry_free);
    return r;
}

void vmstate_registry_free(VMStateRegistry *r)
{
    if (r) {
        g_ptr_array_unref(r->entries);
        g_free(r);
    }
}

size_t vmstate_registry_count(const VMStateRegistry *r)
{
    return r->entries->len;
}

const VMStateEntry *vmstate_registry_get(const VMStateRegistry *r, size_t i)
{
    return r->entries->pdata[i];
}

const VMStateEntry *vmstate_registry_find(const VMStateRegistry *r, const char *idstr,
                                          uint32_t instance_id)
{
    for (size_t i = 0; i < r->entries->len; i++) {
        const VMStateEntry *e = r->entries->pdata[i];

        if (e->instance_id == instance_id && g_str_equal(e->idstr, idstr)) {
            return e;
        }
    }
    return NULL;
}

static uint32_t next_instance(const VMStateRegistry *r, const char *idstr)
{
    uint32_t next = 0;

    for (size_t i = 0; i < r->entries->len; i++) {
        const VMStateEntry *e = r->entries->pdata[i];

        if (g_str_equal(e->idstr, idstr)) {
            next = MAX(next, e->instance_id + 1);
        }
    }
    return next;
}

static size_t place_for(const VMStateRegistry *r, int priority)
{
    size_t i = r->entries->len;

    while (i > 0 && vmstate_registry_get(r, i - 1)->priority < priority) {
        i--;
    }
    return i;
}

bool vmstate_register(VMStateRegistry *r, const char *idstr, uint32_t instance_id, int priority,
                      const VMStateDescription *vmsd, void *opaque, GError **errp)
{
    VMStateEntry *e;

    if (strlen(idstr) > UINT8_MAX) {
        error_set(errp, "the state section name '%s' is longer than 255 characters", idstr);
        return false;
    }
    if (instance_id == VMSTATE_INSTANCE_ID_ANY) {
        instance_id = next_instance(r, idstr);
    }
    if (vmstate_registry_find(r, idstr, instance_id)) {
        error_set(errp, "the state section '%s' number %u exists already", idstr, instance_id);
        return false;
    }
    e = g_new0(VMStateEntry, 1);
    e->idstr = g_strdup(idstr);
    e->instance_id = instance_id;
    e->priority = priority;
    e->vmsd = vmsd;
    e->opaque = opaque;
    g_ptr_array_insert(r->entries, place_for(r, priority), e);
    return true;
}

void vmstate_unregister(VMStateRegistry *r, const VMStateDescription *vmsd, void *opaque)
{
    for (size_t i = r->entries->len; i-- > 0;) {
        const VMStateEntry *e = r->entries->pdata[i];

        if (e->opaque == opaque && (!vmsd || e->vmsd == vmsd)) {
            g_ptr_array_remove_index(r->entries, i);
        }
    }
}

void vmstate_registry_foreach(const VMStateRegistry *r,
                              void (*fn)(const VMStateEntry *e, void *opaque), void *opaque)
{
    for (size_t i = 0; i < r->entries->len; i++) {
        fn(r->entries->pdata[i], opaque);
    }
}
