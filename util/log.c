/*
 * The debug log (-d items, -D file) and its trace points.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "util/error.h"
#include "util/suggest.h"

#define LIMIT_WINDOW_US (5 * G_USEC_PER_SEC)
#define LIMIT_LINES 10

static const struct {
    const char *name, *meaning;
} items[LOG_ITEM__MAX] = {
    [LOG_GUEST_ERROR] = { "guest_errors", "the guest misused a device" },
    [LOG_UNIMP] = { "unimp", "the guest used a missing part of a device" },
    [LOG_QMP] = { "qmp", "QMP commands, replies and events" },
    [LOG_MIGRATION] = { "migration", "states and sections of save and restore" },
    [LOG_MEMORY] = { "memory", "mappings, scans, detaching" },
    [LOG_KVM] = { "kvm", "capabilities and unusual exits" },
    [LOG_DEVICE] = { "device", "realize, reset and wiring of devices" },
    [LOG_STARTUP] = { "startup", "times of the steps of start and restore" },
};

/* Set while options are read, constant afterwards. */
unsigned log_mask;
static FILE *log_file;

void log_write(LogItem item, const char *fmt, ...)
{
    g_autofree char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    if (item == LOG_STARTUP) {
        fprintf(log_file ?: stderr, "startup: %" G_GINT64_FORMAT " us: %s\n",
                g_get_monotonic_time(), text);
    } else {
        fprintf(log_file ?: stderr, "%s: %s\n", items[item].name, text);
    }
}

bool log_limit_pass(LogLimit *limit)
{
    gint64 now = g_get_monotonic_time();

    if (limit->lines == 0 || now - limit->window >= LIMIT_WINDOW_US) {
        *limit = (LogLimit){ .window = now };
    }
    return limit->lines++ < LIMIT_LINES;
}

static bool set_one_item(const char *name, GError **errp)
{
    const char *valid[LOG_ITEM__MAX + 3] = { "all", "none" };
    g_autofree char *hint = NULL;

    if (strcmp(name, "none") == 0) {
        log_mask = 0;
        return true;
    }
    if (strcmp(name, "all") == 0) {
        log_mask = (1u << LOG_ITEM__MAX) - 1;
        return true;
    }
    for (int i = 0; i < LOG_ITEM__MAX; i++) {
        if (strcmp(name, items[i].name) == 0) {
            log_mask |= 1u << i;
            return true;
        }
        valid[i + 2] = items[i].name;
    }
    hint = suggest_nearest(name, valid);
    error_set(errp, "Unknown log item '%s'%s%s", name, hint ? ": " : "", hint ?: "");
    return false;
}

bool log_set_items(const char *list, GError **errp)
{
    g_auto(GStrv) names = g_strsplit(list, ",", -1);

    for (char **name = names; *name; name++) {
        if (!set_one_item(*name, errp)) {
            return false;
        }
    }
    return true;
}

bool log_set_file(const char *path, GError **errp)
{
    FILE *file = fopen(path, "we");

    if (!file) {
        error_set_errno(errp, errno, "Opening the log file '%s' failed", path);
        return false;
    }
    setvbuf(file, NULL, _IOLBF, 0);
    if (log_file) {
        fclose(log_file);
    }
    log_file = file;
    return true;
}

char *log_help(void)
{
    g_autoptr(GString) text = g_string_new("Log items (comma-separated list for -d):\n");

    for (int i = 0; i < LOG_ITEM__MAX; i++) {
        g_string_append_printf(text, "%-14s %s\n", items[i].name, items[i].meaning);
    }
    g_string_append(text, "all, none\n");
    return g_string_free(g_steal_pointer(&text), FALSE);
}
