/*
 * An accelerator that only notes what it is asked for: messages, routes, eventfds. For tests of who asks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_UNIT_FAKE_ACCEL_H
#define COWBIRD_TESTS_UNIT_FAKE_ACCEL_H

#include "accel/accel-ops.h"

#include <string.h>
#include <unistd.h>

#define FAKE_MAX 128

typedef struct FakeMessage {
    uint64_t address;
    uint32_t data;
    bool used;
} FakeMessage;

typedef struct FakeAccel {
    Accel parent;
    FakeMessage sent[FAKE_MAX]; /* one by one */
    unsigned n_sent, commits;
    FakeMessage routes[FAKE_MAX]; /* by GSI */
    int irqfds[FAKE_MAX];         /* by GSI; 0: none */
    AccelIoEvent ioevents[FAKE_MAX];
    unsigned n_ioevents;
} FakeAccel;

static inline FakeAccel *fake(Accel *accel)
{
    return (FakeAccel *)accel;
}

static inline bool fake_send_msi(Accel *accel, uint64_t address, uint32_t data)
{
    FakeAccel *f = fake(accel);

    g_assert_cmpuint(f->n_sent, <, FAKE_MAX);
    f->sent[f->n_sent++] = (FakeMessage){ address, data, true };
    return true;
}

static inline int fake_add_route(Accel *accel, uint64_t address, uint32_t data, GError **errp)
{
    FakeAccel *f = fake(accel);
    int gsi = 24;

    while (f->routes[gsi].used) {
        gsi++;
    }
    f->routes[gsi] = (FakeMessage){ address, data, true };
    return gsi;
}

static inline void fake_update_route(Accel *accel, int gsi, uint64_t address, uint32_t data)
{
    fake(accel)->routes[gsi] = (FakeMessage){ address, data, true };
}

static inline void fake_remove_route(Accel *accel, int gsi)
{
    g_assert_true(fake(accel)->routes[gsi].used);
    g_assert_cmpint(fake(accel)->irqfds[gsi], ==, 0);
    fake(accel)->routes[gsi].used = false;
}

static inline bool fake_commit(Accel *accel, GError **errp)
{
    fake(accel)->commits++;
    return true;
}

static inline bool fake_add_irqfd(Accel *accel, int eventfd, int resample, int gsi, GError **errp)
{
    g_assert_true(fake(accel)->routes[gsi].used);
    g_assert_cmpint(fake(accel)->irqfds[gsi], ==, 0);
    fake(accel)->irqfds[gsi] = eventfd;
    return true;
}

static inline bool fake_remove_irqfd(Accel *accel, int eventfd, int gsi, GError **errp)
{
    g_assert_cmpint(fake(accel)->irqfds[gsi], ==, eventfd);
    fake(accel)->irqfds[gsi] = 0;
    return true;
}

static inline bool same_place(const AccelIoEvent *a, const AccelIoEvent *b)
{
    return a->pio == b->pio && a->addr == b->addr && (!a->match || a->value == b->value);
}

static inline AccelIoEvent *fake_find_ioevent(FakeAccel *f, const AccelIoEvent *e)
{
    for (unsigned i = 0; i < f->n_ioevents; i++) {
        if (same_place(&f->ioevents[i], e)) {
            return &f->ioevents[i];
        }
    }
    return NULL;
}

static inline bool fake_add_ioevent(Accel *accel, const AccelIoEvent *e, GError **errp)
{
    FakeAccel *f = fake(accel);

    g_assert_null(fake_find_ioevent(f, e));
    f->ioevents[f->n_ioevents++] = *e;
    return true;
}

static inline void fake_remove_ioevent(Accel *accel, const AccelIoEvent *e)
{
    FakeAccel *f = fake(accel);
    AccelIoEvent *found = fake_find_ioevent(f, e);

    g_assert_nonnull(found);
    g_assert_cmpint(found->eventfd, ==, e->eventfd);
    *found = f->ioevents[--f->n_ioevents];
}

/* A guest writes to a doorbell; true: an eventfd took it. */
static inline bool fake_ring(FakeAccel *f, bool pio, uint64_t addr, uint64_t value)
{
    const uint64_t one = 1;
    AccelIoEvent e = { .pio = pio, .addr = addr, .match = pio, .value = value };
    const AccelIoEvent *found = fake_find_ioevent(f, &e);

    return found && write(found->eventfd, &one, sizeof(one)) == sizeof(one);
}

static inline unsigned fake_count_routes(const FakeAccel *f)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FAKE_MAX; i++) {
        n += f->routes[i].used;
    }
    return n;
}

/* The messages sent since the last call, by call or by irqfd; data of the last one in ret_data. */
static inline unsigned fake_take(FakeAccel *f, uint32_t *ret_data)
{
    unsigned n = f->n_sent;
    uint32_t data = n ? f->sent[n - 1].data : 0;

    f->n_sent = 0;
    for (unsigned i = 0; i < FAKE_MAX; i++) {
        uint64_t count;

        if (f->irqfds[i] && read(f->irqfds[i], &count, sizeof(count)) == sizeof(count)) {
            n += (unsigned)count;
            data = f->routes[i].data;
        }
    }
    if (ret_data) {
        *ret_data = data;
    }
    return n;
}

static inline void fake_close(Accel *accel)
{
}

static inline FakeAccel *fake_accel_new(const AccelEnv *env)
{
    static const AccelOps ops = {
        .name = "fake",
        .irqfds = true,
        .ioevents = true,
        .close = fake_close,
        .send_msi = fake_send_msi,
        .add_msi_route = fake_add_route,
        .update_msi_route = fake_update_route,
        .remove_msi_route = fake_remove_route,
        .commit_routes = fake_commit,
        .add_irqfd = fake_add_irqfd,
        .remove_irqfd = fake_remove_irqfd,
        .add_ioevent = fake_add_ioevent,
        .remove_ioevent = fake_remove_ioevent,
    };
    FakeAccel *f = g_new0(FakeAccel, 1);

    accel_init(&f->parent, &ops, env);
    return f;
}

static inline void fake_accel_free(FakeAccel *f)
{
    g_mutex_clear(&f->parent.lock);
    g_free(f);
}

#endif
