/*
 * Hands an event's data to its sink as JSON.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qapi/event.h"

#include "qapi/visit.h"

void qapi_event_send(QapiEventSink *sink, const char *name, const QapiType *type, const void *data)
{
    if (!sink) {
        return;
    }
    sink->send(sink->opaque, name, type ? qapi_to_json(type, data) : NULL);
}
