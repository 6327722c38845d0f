/*
 * Events: where they go. The senders, one for each event of the schema, are in qapi-events.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QAPI_EVENT_H
#define QAPI_EVENT_H

#include "qapi/type.h"

/* Takes events from any thread. @data is owned by send; NULL if the event has none. */
typedef struct QapiEventSink {
    void (*send)(void *opaque, const char *name, json_object *data);
    void *opaque;
} QapiEventSink;

/* Send the event @name with the value @data of @type (both NULL: no data). No sink: dropped. */
void qapi_event_send(QapiEventSink *sink, const char *name, const QapiType *type, const void *data);

#endif
