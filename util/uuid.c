/*
 * UUIDs (RFC 4122) as 16 bytes in the order of their text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/uuid.h"

#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/random.h>

static bool is_dash_position(int i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

bool uuid_parse(const char *text, Uuid *ret_uuid)
{
    Uuid uuid;
    int n = 0;

    if (strlen(text) != UUID_TEXT_LEN) {
        return false;
    }
    for (int i = 0; i < UUID_TEXT_LEN;) {
        if (is_dash_position(i)) {
            if (text[i++] != '-') {
                return false;
            }
            continue;
        }
        if (!g_ascii_isxdigit(text[i]) || !g_ascii_isxdigit(text[i + 1])) {
            return false;
        }
        uuid.data[n++] = g_ascii_xdigit_value(text[i]) << 4 | g_ascii_xdigit_value(text[i + 1]);
        i += 2;
    }
    *ret_uuid = uuid;
    return true;
}

void uuid_format(const Uuid *uuid, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (int n = 0, i = 0; n < 16; n++) {
        if (is_dash_position(i)) {
            out[i++] = '-';
        }
        out[i++] = digits[uuid->data[n] >> 4];
        out[i++] = digits[uuid->data[n] & 15];
    }
    out[UUID_TEXT_LEN] = '\0';
}

char *uuid_to_string(const Uuid *uuid)
{
    char *text = g_malloc(UUID_TEXT_LEN + 1);

    uuid_format(uuid, text);
    return text;
}

Uuid uuid_generate(void)
{
    Uuid uuid;
    ssize_t n;

    /* Up to 256 bytes come whole once the pool is ready; before that the call waits. */
    do {
        n = getrandom(uuid.data, sizeof(uuid.data), 0);
    } while (n < 0 && errno == EINTR);
    if (n != sizeof(uuid.data)) {
        for (size_t i = 0; i < sizeof(uuid.data); i++) {
            uuid.data[i] = g_random_int_range(0, 256);
        }
    }
    uuid.data[6] = (uuid.data[6] & 0x0f) | 0x40; /* version 4 */
    uuid.data[8] = (uuid.data[8] & 0x3f) | 0x80; /* the RFC's variant */
    return uuid;
}

bool uuid_equal(const Uuid *a, const Uuid *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}
