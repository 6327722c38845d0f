/*
 * Error objects: GError of one domain whose code is the QMP error class, and reports on stderr.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_ERROR_H
#define COWBIRD_UTIL_ERROR_H

#include <glib.h>
#include <stdbool.h>

#define COWBIRD_ERROR (cowbird_error_quark())

/* The "class" member of a QMP error reply. */
typedef enum CowbirdErrorClass {
    COWBIRD_ERROR_GENERIC,
    COWBIRD_ERROR_COMMAND_NOT_FOUND,
    COWBIRD_ERROR_DEVICE_NOT_ACTIVE,
    COWBIRD_ERROR_DEVICE_NOT_FOUND,
    COWBIRD_ERROR_KVM_MISSING_CAP,
} CowbirdErrorClass;

GQuark cowbird_error_quark(void);

/* QMP's name of the class of err; errors of other domains (GIO, GLib) are "GenericError". */
const char *error_class_name(const GError *err);

/* Set a GenericError. errp may be NULL; *errp must be NULL. */
void error_set(GError **errp, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

void error_set_class(GError **errp, CowbirdErrorClass cls, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);

/* As error_set, with ": <text of err> (errno <err>)" appended. err is a positive errno value. */
void error_set_errno(GError **errp, int err, const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/*
 * One line on stderr, "<program>: warning: ..." and so on; safe from any thread. The text carries
 * no newline.
 */
void error_report(const char *fmt, ...) G_GNUC_PRINTF(1, 2);
void warn_report(const char *fmt, ...) G_GNUC_PRINTF(1, 2);
void info_report(const char *fmt, ...) G_GNUC_PRINTF(1, 2);

/*
 * How reports look (-msg): an ISO 8601 time stamp in front, and the name of the guest. Called once
 * while options are read, before other threads exist. guest_name may be NULL.
 */
void report_set_format(bool timestamp, const char *guest_name);

#endif
