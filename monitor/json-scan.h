/*
 * Follows JSON text byte by byte: strings, depth, numbers. It tells where a message ends and finds
 * what json-c's tokener would let pass; it does not check the grammar.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MONITOR_JSON_SCAN_H
#define COWBIRD_MONITOR_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct JsonScan {
    int64_t depth;   /* open braces and brackets; below 0 if more were closed than opened */
    char quote;      /* the quotation mark of the string we are in, or 0 */
    bool escaped;    /* after a backslash in a string */
    bool line_start; /* the byte before was a newline */
    bool in_number;
    bool negative, fraction, overflow; /* of that number */
    uint64_t magnitude;
    char before; /* the byte before, outside strings */
} JsonScan;

/* Take in one byte. NULL, or what makes it no JSON: a constant text. */
const char *json_scan_byte(JsonScan *scan, char c);

#endif
