/*
 * Sizes as people write them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "util/units.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

/* The factor of a suffix letter, 0 for none of them. */
static uint64_t suffix_factor(char suffix)
{
    static const char letters[] = "bkmgtpe";
    const char *at = suffix ? strchr(letters, g_ascii_tolower(suffix)) : NULL;

    return at ? UINT64_C(1) << (10 * (at - letters)) : 0;
}

/* "1.5": digits, a dot and digits, without an exponent. */
static bool parse_fraction(const char *text, const char **ret_end, double *ret_value)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    size_t places = strspn(text + whole + 1, digits);
    g_autofree char *number = g_strndup(text, whole + 1 + places);

    if (places == 0) {
        return false;
    }
    *ret_end = text + whole + 1 + places;
    *ret_value = g_ascii_strtod(number, NULL);
    return true;
}

static bool split_suffix(const char *end, char default_suffix, uint64_t *ret_factor)
{
    if (*end == '\0') {
        *ret_factor = default_suffix ? suffix_factor(default_suffix) : 1;
        return true;
    }
    *ret_factor = suffix_factor(*end);
    return *ret_factor != 0 && end[1] == '\0';
}

bool size_parse(const char *text, char default_suffix, uint64_t *ret_size)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    uint64_t whole, factor;
    const char *fraction_end;
    double fraction;
    char *end;

    if (!g_ascii_isdigit(text[0])) {
        return false;
    }
    errno = 0;
    whole = g_ascii_strtoull(text, &end, hex ? 16 : 10);
    if (errno != 0 || (hex && end == text + 1)) {
        return false;
    }
    if (*end != '.' || hex) {
        return split_suffix(end, default_suffix, &factor) &&
               !__builtin_mul_overflow(whole, factor, ret_size);
    }
    if (!parse_fraction(text, &fraction_end, &fraction) ||
        !split_suffix(fraction_end, default_suffix, &factor) ||
        fraction * (double)factor >= 18446744073709551616.0) {
        return false;
    }
    *ret_size = (uint64_t)(fraction * (double)factor);
    return true;
}
