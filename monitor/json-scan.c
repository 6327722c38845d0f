/*
 * The byte-by-byte view of JSON text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "monitor/json-scan.h"

#include <stddef.h>

static const char *scan_string(JsonScan *scan, char c)
{
    if ((unsigned char)c < 0x20) {
        if (c == '\n') {
            scan->quote = 0;
        }
        return "control character in a string";
    }
    if (scan->escaped) {
        scan->escaped = false;
    } else if (c == '\\') {
        scan->escaped = true;
    } else if (c == scan->quote) {
        scan->quote = 0;
    }
    return NULL;
}

static void number_digit(JsonScan *scan, unsigned digit)
{
    if (!scan->in_number) {
        scan->in_number = true;
        scan->negative = scan->before == '-';
        scan->fraction = scan->overflow = false;
        scan->magnitude = 0;
    }
    if (scan->magnitude > (UINT64_MAX - digit) / 10) {
        scan->overflow = true;
    }
    scan->magnitude = scan->magnitude * 10 + digit;
}

/* json-c would quietly give the nearest integer that it has. */
static const char *number_end(JsonScan *scan)
{
    bool bad = scan->overflow || (scan->negative && scan->magnitude > (uint64_t)INT64_MAX + 1);

    if (!scan->in_number) {
        return NULL;
    }
    scan->in_number = false;
    return bad && !scan->fraction ? "integer out of range" : NULL;
}

static const char *scan_plain(JsonScan *scan, char c)
{
    switch (c) {
    case '"':
    case '\'':
        scan->quote = c;
        scan->escaped = false;
        return NULL;
    case '{':
    case '[':
        scan->depth++;
        return NULL;
    case '}':
    case ']':
        scan->depth--;
        return NULL;
    case 'N': /* NaN and Infinity, which json-c takes for numbers */
    case 'I':
        return "unexpected character";
    default:
        return NULL;
    }
}

const char *json_scan_byte(JsonScan *scan, char c)
{
    const char *bad = NULL;

    scan->line_start = c == '\n';
    if (scan->quote) {
        return scan_string(scan, c);
    }
    if (c >= '0' && c <= '9') {
        number_digit(scan, c - '0');
    } else if (scan->in_number && (c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-')) {
        scan->fraction = true;
    } else {
        bad = number_end(scan);
        const char *worse = scan_plain(scan, c);

        bad = bad ? bad : worse;
    }
    scan->before = c;
    return bad;
}
