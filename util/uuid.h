/*
 * UUIDs (RFC 4122) as 16 bytes in the order of their text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_UUID_H
#define COWBIRD_UTIL_UUID_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Uuid {
    uint8_t data[16];
} Uuid;

#define UUID_TEXT_LEN 36

/* Accepts the 8-4-4-4-12 form, either case. */
bool uuid_parse(const char *text, Uuid *ret_uuid);

/* Lower case, NUL-terminated; out has UUID_TEXT_LEN + 1 bytes. */
void uuid_format(const Uuid *uuid, char *out);

/* The same, allocated; owned by the caller. */
char *uuid_to_string(const Uuid *uuid);

/* A random (version 4) UUID from the kernel's generator. */
Uuid uuid_generate(void);

bool uuid_equal(const Uuid *a, const Uuid *b);

#endif
