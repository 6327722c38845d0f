/*
 * The debug log (-d items, -D file) and its trace points.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_LOG_H
#define COWBIRD_UTIL_LOG_H

#include <glib.h>
#include <stdbool.h>

typedef enum LogItem {
    LOG_GUEST_ERROR, /* the guest did what its hardware's manual forbids */
    LOG_UNIMP,       /* the guest used a part of a device that we do not have */
    LOG_QMP,         /* QMP traffic */
    LOG_MIGRATION,   /* states and sections of save and restore */
    LOG_MEMORY,      /* mappings, scans, detaching */
    LOG_KVM,         /* capabilities, exits that end a vCPU */
    LOG_DEVICE,      /* realize, reset, interrupt wiring */
    LOG_STARTUP,     /* time stamps of start and restore, for scripts/bench --breakdown */
    LOG_ITEM__MAX,
} LogItem;

/* One bit an item; written by log_set_items only. Read through log_enabled(). */
extern unsigned log_mask;

static inline bool log_enabled(LogItem item)
{
    return G_UNLIKELY(log_mask & (1u << item));
}

/*
 * One line, without newline, to the log when item is on. Trace points name themselves first:
 * log_printf(LOG_MEMORY, "ram_release: block=%s ...").
 */
#define log_printf(item, ...)             \
    do {                                  \
        if (log_enabled(item)) {          \
            log_write(item, __VA_ARGS__); \
        }                                 \
    } while (0)

/* Of one source of lines that a guest can cause as often as it likes. */
typedef struct LogLimit {
    gint64 window; /* us: begin of the present one */
    unsigned lines;
} LogLimit;

/* Whether one more line may be written: ten in five seconds. The caller has it to itself. */
bool log_limit_pass(LogLimit *limit);

void log_write(LogItem item, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

/*
 * Switch on a comma-separated list of items ("guest_errors,qmp", "all", "none"); an unknown item
 * is an error that names the nearest. Called while options are read.
 */
bool log_set_items(const char *list, GError **errp);

/* The log goes to this file (truncated, line-buffered) instead of stderr. */
bool log_set_file(const char *path, GError **errp);

/* The items, their names and meanings, one line each; for "-d help". Owned by the caller. */
char *log_help(void);

#endif
