/*
 * Cuts a stream of bytes into QMP messages, which are JSON objects.
 *
 * Malformed input gives one error; reading starts again at the next line that can begin a message,
 * or at the next '{' when every brace opened before has been closed. Further errors on the same
 * line are not told: they have the same cause.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COWBIRD_MONITOR_FRAMER_H
#define COWBIRD_MONITOR_FRAMER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct JsonFramer JsonFramer;

typedef enum FramerResult {
    FRAMER_MORE,    /* all bytes are used and no message is complete */
    FRAMER_MESSAGE, /* a message: an object */
    FRAMER_ERROR,   /* malformed input */
} FramerResult;

/* Messages may have @max_bytes bytes and @max_depth levels. */
JsonFramer *framer_new(size_t max_bytes, unsigned max_depth);
void framer_free(JsonFramer *framer);

/* Forget what has been read of a message. */
void framer_reset(JsonFramer *framer);

/* What comes now the client has written at one go: for telling errors it is as good as a new line. */
void framer_begin_write(JsonFramer *framer);

/* Whether an error has been told for the line that the last message ended in. */
bool framer_line_failed(const JsonFramer *framer);

/*
 * Read from @data, at most up to the end of a message or an error. *@ret_used tells how far; call
 * again with the rest. Sets *@ret_message (a new reference) or *@ret_error (a text to be freed).
 */
FramerResult framer_feed(JsonFramer *framer, const char *data, size_t len, size_t *ret_used,
                         json_object **ret_message, char **ret_error);

#endif
