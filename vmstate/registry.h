/*
 * Who takes part in saving the state of the machine: one ordered list of tables and objects.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_VMSTATE_REGISTRY_H
#define COWBIRD_VMSTATE_REGISTRY_H

#include "vmstate/vmstate.h"

typedef struct VMStateRegistry VMStateRegistry;

/* The next unused number of that idstr is taken. */
#define VMSTATE_INSTANCE_ID_ANY UINT32_MAX

/* Higher priorities are saved, and so restored, first; equal ones in order of registration. */
typedef enum {
    VMSTATE_PRIORITY_DEFAULT = 0,
    VMSTATE_PRIORITY_IRQCHIP =
        10, /* interrupt controllers, clocks: after the vCPUs, before devices */
    VMSTATE_PRIORITY_VCPU = 20,
    VMSTATE_PRIORITY_LAYOUT = 30, /* what changes the memory map (PAM, SMRAM): before everything */
} VMStatePriority;

typedef struct VMStateEntry {
    char *idstr; /* at most 255 characters */
    uint32_t instance_id;
    int priority;
    const VMStateDescription *vmsd;
    void *opaque;
} VMStateEntry;

VMStateRegistry *vmstate_registry_new(void);
void vmstate_registry_free(VMStateRegistry *r);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VMStateRegistry, vmstate_registry_free)

/*
 * @vmsd and @opaque stay the caller's and must live until vmstate_unregister. The same idstr and
 * instance twice is an error.
 */
bool vmstate_register(VMStateRegistry *r, const char *idstr, uint32_t instance_id, int priority,
                      const VMStateDescription *vmsd, void *opaque, GError **errp);

/* Takes out every entry of @vmsd and @opaque; @vmsd NULL means all of @opaque. */
void vmstate_unregister(VMStateRegistry *r, const VMStateDescription *vmsd, void *opaque);

size_t vmstate_registry_count(const VMStateRegistry *r);
/* The @i-th entry in save order; valid until the next (un)registration. */
const VMStateEntry *vmstate_registry_get(const VMStateRegistry *r, size_t i);
/* NULL when nobody registered that name. */
const VMStateEntry *vmstate_registry_find(const VMStateRegistry *r, const char *idstr,
                                          uint32_t instance_id);
/* In save order. */
void vmstate_registry_foreach(const VMStateRegistry *r,
                              void (*fn)(const VMStateEntry *e, void *opaque), void *opaque);

#endif
