/*
 * The "a=1,b.c=2" syntax of the command line, parsed into JSON.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_UTIL_KEYVAL_H
#define COWBIRD_UTIL_KEYVAL_H

#include <glib.h>
#include <json-c/json_types.h>

/*
 * Parse text into an object whose leaves are strings. Dots nest ("b.c=2"); an object whose keys
 * are 0..n-1 becomes an array; ",," stands for one comma in a value; a key given twice takes its
 * last value. The first element may be a bare value when implied_key is not NULL. A bare key is
 * refused with the two spellings that are right. Owned by the caller; NULL on error.
 */
json_object *keyval_parse(const char *text, const char *implied_key, GError **errp);

/* As keyval_parse; a text that begins with '{' is parsed as JSON (strictly, one object). */
json_object *keyval_or_json_parse(const char *text, const char *implied_key, GError **errp);

#endif
