/*
 * Error objects: GError of one domain whose code is the QMP error class, and reports on stderr.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Set once by report_set_format() before other threads start. */
static bool report_timestamp;
static char *report_guest_name;

GQuark cowbird_error_quark(void)
{
    return g_quark_from_static_string("cowbird-error");
}

const char *error_class_name(const GError *err)
{
    static const char *const names[] = {
        [COWBIRD_ERROR_GENERIC] = "GenericError",
        [COWBIRD_ERROR_COMMAND_NOT_FOUND] = "CommandNotFound",
        [COWBIRD_ERROR_DEVICE_NOT_ACTIVE] = "DeviceNotActive",
        [COWBIRD_ERROR_DEVICE_NOT_FOUND] = "DeviceNotFound",
        [COWBIRD_ERROR_KVM_MISSING_CAP] = "KVMMissingCap",
    };

    if (err->domain != COWBIRD_ERROR || err->code < 0 || err->code >= (int)G_N_ELEMENTS(names)) {
        return names[COWBIRD_ERROR_GENERIC];
    }
    return names[err->code];
}

static void error_take_text(GError **errp, CowbirdErrorClass cls, char *text)
{
    g_autofree char *owned = text;

    g_set_error_literal(errp, COWBIRD_ERROR, cls, owned);
}

void error_set(GError **errp, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    error_take_text(errp, COWBIRD_ERROR_GENERIC, g_strdup_vprintf(fmt, ap));
    va_end(ap);
}

void error_set_class(GError **errp, CowbirdErrorClass cls, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    error_take_text(errp, cls, g_strdup_vprintf(fmt, ap));
    va_end(ap);
}

void error_set_errno(GError **errp, int err, const char *fmt, ...)
{
    g_autofree char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = g_strdup_vprintf(fmt, ap);
    va_end(ap);
    error_take_text(errp, COWBIRD_ERROR_GENERIC,
                    g_strdup_printf("%s: %s (errno %d)", text, g_strerror(err), err));
}

static void report(const char *kind, const char *fmt, va_list ap)
{
    g_autoptr(GString) line = g_string_new(NULL);

    if (report_timestamp) {
        g_autoptr(GDateTime) now = g_date_time_new_now_utc();
        g_autofree char *stamp = g_date_time_format(now, "%Y-%m-%dT%H:%M:%S.%fZ ");

        g_string_append(line, stamp);
    }
    if (report_guest_name) {
        g_string_append_printf(line, "%s ", report_guest_name);
    }
    g_string_append_printf(line, "%s: %s", g_get_prgname() ?: "cowbird", kind);
    g_string_append_vprintf(line, fmt, ap);
    g_string_append_c(line, '\n');
    fwrite(line->str, 1, line->len, stderr);
    fflush(stderr);
}

void error_report(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report("", fmt, ap);
    va_end(ap);
}

void warn_report(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report("warning: ", fmt, ap);
    va_end(ap);
}

void info_report(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    report("info: ", fmt, ap);
    va_end(ap);
}

void report_set_format(bool timestamp, const char *guest_name)
{
    report_timestamp = timestamp;
    g_free(report_guest_name);
    report_guest_name = g_strdup(guest_name);
}
