/*
 * What the tests of character devices share: a front end that records, a folder, a registry.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_TESTS_CHARDEV_FIXTURE_H
#define COWBIRD_TESTS_CHARDEV_FIXTURE_H

#include <string.h>

#include "chardev/chardev.h"
#include "util/fds.h"
#include "util/io.h"
#include "util/json.h"
#include "util/keyval.h"

/* A front end that records what happens to it. */
typedef struct Front {
    GString *got;
    size_t room;
    int opened, closed, writable;
} Front;

G_GNUC_UNUSED static size_t front_can_receive(void *opaque)
{
    return ((Front *)opaque)->room;
}

G_GNUC_UNUSED static void front_receive(void *opaque, const uint8_t *data, size_t len)
{
    Front *front = opaque;

    g_assert_cmpuint(len, <=, front->room);
    g_string_append_len(front->got, (const char *)data, len);
}

G_GNUC_UNUSED static void front_event(void *opaque, ChardevEvent event)
{
    Front *front = opaque;

    front->opened += event == CHARDEV_EVENT_OPENED;
    front->closed += event == CHARDEV_EVENT_CLOSED;
    front->writable += event == CHARDEV_EVENT_WRITABLE;
}

static const ChardevHandlers front_handlers = { front_can_receive, front_receive, front_event };

typedef struct Fixture {
    char *dir;
    FdStore *fds;
    ChardevRegistry *registry;
    Front front;
} Fixture;

G_GNUC_UNUSED static void set_up(Fixture *f, gconstpointer data)
{
    f->dir = g_dir_make_tmp("cowbird-chardev-XXXXXX", NULL);
    f->fds = fd_store_new();
    f->registry = chardev_registry_new(f->fds);
    f->front = (Front){ .got = g_string_new(NULL), .room = 1000 };
}

G_GNUC_UNUSED static void tear_down(Fixture *f, gconstpointer data)
{
    g_autofree char *command = g_strdup_printf("rm -rf '%s'", f->dir);

    chardev_registry_free(f->registry);
    fd_store_free(f->fds);
    while (g_main_context_iteration(NULL, FALSE)) {
    }
    g_assert_cmpint(system(command), ==, 0);
    g_string_free(f->front.got, TRUE);
    g_free(f->dir);
}

/* %s in the text is the test's folder. */
G_GNUC_UNUSED static Chardev *make(Fixture *f, const char *text)
{
    g_autofree char *options_text = g_strdup_printf(text, f->dir, f->dir);
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) options = keyval_parse(options_text, "backend", &err);
    Chardev *chr;

    g_assert_no_error(err);
    chr = chardev_new(f->registry, options, &err);
    g_assert_no_error(err);
    return chr;
}

G_GNUC_UNUSED static void refuse(Fixture *f, const char *text, const char *part)
{
    g_autofree char *options_text = g_strdup_printf(text, f->dir);
    g_autoptr(GError) err = NULL;
    g_autoptr(json_object) options = keyval_parse(options_text, "backend", NULL);

    g_assert_null(chardev_new(f->registry, options, &err));
    g_assert_nonnull(err);
    if (!strstr(err->message, part)) {
        g_error("'%s': message '%s' lacks '%s'", text, err->message, part);
    }
}

G_GNUC_UNUSED static void attach(Fixture *f, Chardev *chr)
{
    g_autoptr(GError) err = NULL;

    g_assert_true(chardev_set_handlers(chr, &front_handlers, &f->front, &err));
    g_assert_no_error(err);
}

#define WAIT_FOR(condition)                                         \
    do {                                                            \
        gint64 end_ = g_get_monotonic_time() + 10 * G_USEC_PER_SEC; \
        while (!(condition)) {                                      \
            g_assert_cmpint(g_get_monotonic_time(), <, end_);       \
            if (!g_main_context_iteration(NULL, FALSE)) {           \
                g_usleep(500);                                      \
            }                                                       \
        }                                                           \
    } while (0)

G_GNUC_UNUSED static void settle(void)
{
    for (int i = 0; i < 20; i++) {
        while (g_main_context_iteration(NULL, FALSE)) {
        }
        g_usleep(1000);
    }
}

G_GNUC_UNUSED static void assert_reads(int fd, const char *text)
{
    g_autofree char *buf = g_malloc0(strlen(text) + 1);
    g_autoptr(GError) err = NULL;

    read_full(fd, buf, strlen(text), &err);
    g_assert_no_error(err);
    g_assert_cmpstr(buf, ==, text);
}

G_GNUC_UNUSED static void assert_filename(Chardev *chr, const char *prefix)
{
    g_autofree char *filename = chardev_filename(chr);

    if (!g_str_has_prefix(filename, prefix)) {
        g_error("filename is '%s'", filename);
    }
}

#define ADD(name, fn) g_test_add("/chardev/" name, Fixture, NULL, set_up, fn, tear_down)

#endif
