# Writes qapi-commands.h (what handlers look like) and qapi-commands.c (the table that calls them).
#
# SPDX-License-Identifier: GPL-2.0-or-later

import names
from emit_types import HEAD, c_type


def handler(command):
    return 'qmp_' + names.c_name(command.name)


def result(command):
    """The C type of the handler's result, with a space or star at its end."""
    if command.ret is None or command.deferred:
        return 'bool '
    return c_type(command.ret) if command.gen else 'json_object *'


def parameters(command):
    text = f'{command.context} *ctx, '
    if not command.gen:
        text += 'json_object *args, '
    elif command.arg:
        text += f'const {command.arg.name} *arg, '
    if command.deferred:
        text += 'QapiReply *reply, '
    return text + 'GError **errp'


def emit_header(schema):
    text = (HEAD + '#ifndef QAPI_COMMANDS_H\n#define QAPI_COMMANDS_H\n\n'
            '#include "qapi/command.h"\n#include "qapi/qapi-types.h"\n\n')
    text += ''.join(f'typedef struct {c} {c};\n' for c in schema.contexts)
    text += '\nenum {\n'
    text += ''.join(f'    {names.context_constant(c)},\n' for c in schema.contexts)
    text += '    QAPI_CONTEXT__MAX\n};\n'
    text += '_Static_assert(QAPI_CONTEXT__MAX <= QAPI_MAX_CONTEXTS, "raise QAPI_MAX_CONTEXTS");\n\n'
    text += 'extern const QapiCommandTable qapi_command_table;\n\n'
    for command in schema.commands.values():
        text += f'{result(command)}{handler(command)}({parameters(command)});\n'
    return text + '\n#endif\n'


def thunk(command):
    args = 'call->ctx, '
    if command.arg or not command.gen:
        args += 'call->arg, '
    if command.deferred:
        args += 'call->reply, '
    call = f'{handler(command)}({args}errp)'
    if result(command) == 'bool ':
        body = f'    return {call};\n'
    else:
        body = f'    call->ret_value = {call};\n    return call->ret_value != NULL;\n'
    name = names.c_name(command.name)
    return f'static bool invoke_{name}(QapiCall *call, GError **errp)\n{{\n{body}}}\n\n'


def entry(command):
    arg = f'&qapi_type_{command.arg.name}' if command.arg else 'NULL'
    ret = f'&qapi_type_{command.ret.name}' if command.ret else 'NULL'
    return (f'    {{ "{command.name}", {arg}, {ret}, {names.context_constant(command.context)}, '
            f'{str(command.deferred).lower()}, {str(not command.gen).lower()}, '
            f'invoke_{names.c_name(command.name)} }},\n')


def emit_table(schema):
    commands = sorted(schema.commands.values(), key=lambda c: c.name)
    text = HEAD + '#include "qapi/qapi-commands.h"\n\n'
    text += ''.join(map(thunk, commands))
    text += 'static const QapiCommand commands[] = {\n' + ''.join(map(entry, commands)) + '};\n\n'
    return (text + 'const QapiCommandTable qapi_command_table = {\n    .commands = commands,\n'
            '    .n_commands = G_N_ELEMENTS(commands),\n};\n')
