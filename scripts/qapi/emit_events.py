# Writes qapi-events.h and qapi-events.c: one small sender for each event.
#
# SPDX-License-Identifier: GPL-2.0-or-later

import names
from emit_types import HEAD, c_type, has_flag
from schema import is_pointer


def parameters(event):
    text = 'QapiEventSink *sink'
    if event.boxed:
        return text + f', const {event.arg.name} *arg'
    for member in event.arg.members if event.arg else []:
        name = names.c_name(member.name)
        if has_flag(member):
            text += f', bool has_{name}'
        const = 'const ' if is_pointer(member.type) else ''
        text += f', {const}{c_type(member.type)}{name}'
    return text


def prototype(event):
    return f'void qapi_event_send_{names.snake(event.name)}({parameters(event)})'


def emit_header(schema):
    text = (HEAD + '#ifndef QAPI_EVENTS_H\n#define QAPI_EVENTS_H\n\n'
            '#include "qapi/event.h"\n#include "qapi/qapi-types.h"\n\n')
    text += ''.join(prototype(event) + ';\n' for event in schema.events.values())
    return text + '\n#endif\n'


def sender(event):
    if not event.arg:
        body = f'    qapi_event_send(sink, "{event.name}", NULL, NULL);\n'
    elif event.boxed:
        body = f'    qapi_event_send(sink, "{event.name}", &qapi_type_{event.arg.name}, arg);\n'
    else:
        body = f'    {event.arg.name} arg = {{\n'
        for member in event.arg.members:
            name = names.c_name(member.name)
            if has_flag(member):
                body += f'        .has_{name} = has_{name},\n'
            cast = f'({c_type(member.type).strip()})' if is_pointer(member.type) else ''
            body += f'        .{name} = {cast}{name},\n'
        body += ('    };\n\n'
                 f'    qapi_event_send(sink, "{event.name}", &qapi_type_{event.arg.name}, &arg);\n')
    return f'{prototype(event)}\n{{\n{body}}}\n\n'


def emit_source(schema):
    return (HEAD + '#include "qapi/qapi-events.h"\n\n'
            + ''.join(map(sender, schema.events.values())))
