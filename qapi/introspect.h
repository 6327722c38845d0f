/*
 * The text query-qmp-schema answers with, written by scripts/qapi into qapi-introspect.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QAPI_INTROSPECT_H
#define QAPI_INTROSPECT_H

/* A JSON array. */
extern const char qapi_schema_text[];

#endif
