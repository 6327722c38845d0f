/*
 * "did you mean": the valid names nearest to a given one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_SUGGEST_H
#define COWBIRD_UTIL_SUGGEST_H

/*
 * Up to three of the NULL-terminated valid names, nearest first: "did you mean 'x' or 'y'?". When
 * none is near, a short list is named whole: "valid: 'a', 'b'"; NULL for a long one. Owned by the
 * caller.
 */
char *suggest_nearest(const char *given, const char *const *valid);

#endif
