/*
 * Words and numbers of the line protocol, and the memory functions the compiler calls.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "tests/guest/guest.h"

void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);

void *memcpy(void *to, const void *from, size_t size)
{
    char *t = to;
    const char *f = from;

    while (size-- > 0) {
        *t++ = *f++;
    }
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    char *t = to;

    while (size-- > 0) {
        *t++ = (char)byte;
    }
    return to;
}

bool text_equal(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

char *text_word(char **text)
{
    char *word = *text, *end;

    while (*word == ' ') {
        word++;
    }
    for (end = word; *end != '\0' && *end != ' '; end++) {
    }
    *text = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return 16;
}

static bool unit_shift(const char *unit, unsigned *ret_shift)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = { { "", 0 }, { "k", 10 }, { "m", 20 }, { "g", 30 } };

    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (text_equal(unit, units[i].name)) {
            *ret_shift = units[i].shift;
            return true;
        }
    }
    return false;
}

bool text_number(const char *word, uint64_t *ret_value)
{
    int base = 10;
    unsigned shift;
    uint64_t value = 0;

    if (text_equal(word, "max")) {
        *ret_value = UINT64_MAX;
        return true;
    }
    if (word[0] == '0' && word[1] == 'x') {
        base = 16;
        word += 2;
    }
    if (digit_value(*word) >= base) {
        return false;
    }
    for (; digit_value(*word) < base; word++) {
        value = value * (unsigned)base + (unsigned)digit_value(*word);
    }
    if (!unit_shift(word, &shift)) {
        return false;
    }
    *ret_value = value << shift;
    return true;
}

void text_copy(char *to, const char *from, size_t size)
{
    size_t i = 0;

    for (; i < size - 1 && from[i] != '\0'; i++) {
        to[i] = from[i];
    }
    to[i] = '\0';
}
