/*
 * A pc board without accelerator, for tests of its devices: interrupts are noted, time moves only when told.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_HW_FIXTURE_H
#define COWBIRD_TESTS_UNIT_HW_FIXTURE_H

#include "chardev/chardev.h"
#include "chardev/ringbuf.h"
#include "hw/core/types.h"
#include "hw/i386/machine.h"
#include "hw/i386/pc.h"
#include "hw/pci/pci.h"
#include "hw/timer/clock.h"
#include "hw/virtio/virtio-pci.h"
#include "memory/guest-access.h"
#include "util/units.h"

#include <string.h>

typedef struct Board {
    Object *root;
    Machine *m;
    PcMachine *pc;
    ChardevRegistry *chardevs;
    Chardev *chr; /* of the first serial port: a ringbuf */
    int levels[MACHINE_GSI_COUNT];
    unsigned edges[MACHINE_GSI_COUNT]; /* times that a line went up */
    unsigned resets, shutdowns, panics;
    GPtrArray *events; /* names */
} Board;

static const QomType *const board_types[] = { hw_types, virtio_pci_types, NULL };

static inline void board_gsi(void *opaque, int n, int level)
{
    Board *b = opaque;

    b->edges[n] += level && !b->levels[n];
    b->levels[n] = level;
}

static inline void board_event(void *opaque, const char *name, json_object *data)
{
    g_ptr_array_add(((Board *)opaque)->events, g_strdup(name));
    json_object_put(data);
}

static inline void board_on_reset(void *opaque, ShutdownCause cause)
{
    ((Board *)opaque)->resets++;
}

static inline void board_on_shutdown(void *opaque, ShutdownCause cause)
{
    ((Board *)opaque)->shutdowns++;
}

static inline void board_on_panic(void *opaque)
{
    ((Board *)opaque)->panics++;
}

static inline void board_make_parts(Board *b, uint64_t ram_size)
{
    static const RunStateHandlers handlers = { .reset = board_on_reset,
                                               .shutdown = board_on_shutdown,
                                               .panicked = board_on_panic };
    Machine *m = b->m;
    g_autoptr(GError) err = NULL;

    m->memory = address_map_new("memory", 52);
    m->io = address_map_new("io", 16);
    m->ram = ram_list_new();
    m->ram_size = ram_size;
    m->main = ram_list_add(m->ram, ram_block_new_anonymous("pc.ram", ram_size, &err), &err);
    g_assert_no_error(err);
    m->events = g_new0(QapiEventSink, 1);
    *m->events = (QapiEventSink){ .send = board_event, .opaque = b };
    m->runstate = runstate_new(m->events);
    runstate_set_handlers(m->runstate, &handlers, b);
    m->vmstate = vmstate_registry_new();
    m->chardevs = b->chardevs;
    m->resets = reset_list_new();
    m->smp = (SmpConfig){ 2, 2, 1, 1, 2, 1 };
    m->incoming = true; /* there is no kernel */
    m->serial[0] = b->chr;
    for (int i = 0; i < MACHINE_GSI_COUNT; i++) {
        m->gsi[i] = (IrqLine){ board_gsi, b, i };
    }
}

/* The board with its own devices, in its reset state; rtc may be NULL. */
static inline Board *board_new(uint64_t ram_size, const RtcConfig *rtc)
{
    Board *b = g_new0(Board, 1);
    g_autoptr(GError) err = NULL;
    json_object *chardev;

    b->events = g_ptr_array_new_with_free_func(g_free);
    b->root = object_new(TYPE_CONTAINER, NULL);
    b->m = machine_new(pc_i440fx_machine_get_type(), b->root, board_types, &err);
    g_assert_no_error(err);
    b->pc = PC_MACHINE(b->m);
    b->chardevs = chardev_registry_new(NULL);
    chardev = json_tokener_parse("{\"backend\": \"ringbuf\", \"id\": \"serial0\"}");
    b->chr = chardev_new(b->chardevs, chardev, &err);
    json_object_put(chardev);
    g_assert_no_error(err);
    if (rtc) {
        b->m->rtc = *rtc;
    }
    board_make_parts(b, ram_size);
    g_assert_true(MACHINE_GET_CLASS(b->m)->init_memory(b->m, &err));
    g_assert_true(MACHINE_GET_CLASS(b->m)->init_devices(b->m, &err));
    g_assert_no_error(err);
    reset_run(b->m->resets);
    return b;
}

static inline void board_free(Board *b)
{
    Machine *m = b->m;
    AddressMap *memory = m->memory, *io = m->io;
    RamList *ram = m->ram;
    RunStateControl *rs = m->runstate;
    VMStateRegistry *vmstate = m->vmstate;
    ResetList *resets = m->resets;
    QapiEventSink *events = m->events;

    g_object_unref(b->root);
    chardev_registry_free(b->chardevs);
    address_map_free(memory);
    address_map_free(io);
    ram_list_free(ram);
    runstate_free(rs);
    vmstate_registry_free(vmstate);
    reset_list_free(resets);
    g_free(events);
    g_ptr_array_unref(b->events);
    g_free(b);
}

/* Carries out what devices have requested. */
static inline void board_settle(Board *b)
{
    while (g_main_context_iteration(NULL, FALSE)) {
    }
}

static inline uint32_t board_in(Board *b, uint16_t port, unsigned size)
{
    uint32_t value = 0;

    address_map_read(b->m->io, port, &value, size);
    return value;
}

static inline void board_out(Board *b, uint16_t port, uint32_t value, unsigned size)
{
    address_map_write(b->m->io, port, &value, size);
}

static inline uint32_t board_config_in(Board *b, unsigned devfn, unsigned reg, unsigned size)
{
    board_out(b, 0xcf8, 0x80000000u | devfn << 8 | (reg & ~3u), 4);
    return board_in(b, (uint16_t)(0xcfc + (reg & 3)), size);
}

static inline void board_config_out(Board *b, unsigned devfn, unsigned reg, uint32_t value,
                                    unsigned size)
{
    board_out(b, 0xcf8, 0x80000000u | devfn << 8 | (reg & ~3u), 4);
    board_out(b, (uint16_t)(0xcfc + (reg & 3)), value, size);
}

/* What the guest has sent through the serial port. */
static inline char *board_serial_text(Board *b)
{
    GByteArray *bytes = chardev_ringbuf_take(b->chr, 65536, NULL);

    g_byte_array_append(bytes, (const uint8_t *)"", 1);
    return (char *)g_byte_array_free(bytes, FALSE);
}

/* Saves all devices, and loads that into another board of the same kind. */
static inline bool board_copy_state(Board *from, Board *to, GError **errp)
{
    for (size_t i = 0; i < vmstate_registry_count(from->m->vmstate); i++) {
        const VMStateEntry *e = vmstate_registry_get(from->m->vmstate, i);
        const VMStateEntry *t = vmstate_registry_find(to->m->vmstate, e->idstr, e->instance_id);
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        ByteReader reader;

        g_assert_nonnull(t);
        vmstate_save(bytes, e->vmsd, e->opaque);
        reader = byte_reader_init(bytes->data, bytes->len);
        if (!vmstate_load(&reader, t->vmsd, t->opaque, e->vmsd->version_id, errp)) {
            return false;
        }
        g_assert_cmpuint(byte_reader_left(&reader), ==, 0);
    }
    return true;
}

#endif
