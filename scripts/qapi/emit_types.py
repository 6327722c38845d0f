# Writes qapi-types.h (the C types) and qapi-tables.c (the tables that describe them).
#
# SPDX-License-Identifier: GPL-2.0-or-later

import names
from schema import Alternate, Builtin, Enum, List, Object, is_pointer, is_scalar, json_kind

HEAD = '/* Written by scripts/qapi from qapi/schema.json. */\n'


def c_type(type_):
    """The type of a member, with a space or star at its end."""
    if isinstance(type_, Builtin):
        return type_.c_type if type_.c_type.endswith('*') else type_.c_type + ' '
    if isinstance(type_, Enum):
        return type_.name + ' '
    if isinstance(type_, List):
        return 'GArray *' if is_scalar(type_.element) else 'GPtrArray *'
    return type_.name + ' *'


def has_flag(member):
    return member.optional and not is_pointer(member.type)


def is_stored(member):
    return not (isinstance(member.type, Builtin) and member.type.kind == 'NULL')


def declare_members(members):
    text = ''
    for member in members:
        name = names.c_name(member.name)
        if has_flag(member):
            text += f'    bool has_{names.c_name(member.name)};\n'
        if is_stored(member):
            text += f'    {c_type(member.type)}{name};\n'
    return text


def declare_enum(enum):
    lower = names.snake(enum.name)
    lines = [f'    {names.constant(enum.name, value)},\n' for value in enum.values]
    return (f'typedef enum {enum.name} {{\n' + ''.join(lines)
            + f'    {names.snake(enum.name).upper()}__MAX\n}} {enum.name};\n'
            + f'extern const QapiType qapi_type_{enum.name};\n'
            + f'static inline const char *{lower}_str({enum.name} value)\n{{\n'
            + f'    return qapi_enum_str(&qapi_type_{enum.name}, value);\n}}\n'
            + f'static inline bool {lower}_parse(const char *name, {enum.name} *ret_value, '
            + 'GError **errp)\n{\n    int value;\n\n'
            + f'    if (!qapi_enum_parse(&qapi_type_{enum.name}, name, &value, errp)) {{\n'
            + '        return false;\n    }\n'
            + f'    *ret_value = ({enum.name})value;\n    return true;\n}}\n\n')


def declare_object(obj):
    body = declare_members(obj.members)
    if obj.branches:
        body += '    union {\n'
        for value, branch in obj.branches.items():
            body += f'        {branch.name} {names.c_name(value)};\n'
        body += '    } u;\n'
    if not body:
        body = '    char q_empty;\n'
    return f'struct {obj.name} {{\n{body}}};\n\n'


def declare_alternate(alternate):
    return (f'struct {alternate.name} {{\n    QapiJsonKind kind;\n    union {{\n'
            + ''.join(f'        {c_type(m.type)}{names.c_name(m.name)};\n'
                      for m in alternate.members if is_stored(m))
            + '    } u;\n};\n\n')


def declare_ends(type_):
    name = type_.name
    return (f'extern const QapiType qapi_type_{name};\n'
            f'static inline void qapi_free_{name}({name} *value)\n{{\n'
            f'    qapi_free(&qapi_type_{name}, value);\n}}\n'
            f'G_DEFINE_AUTOPTR_CLEANUP_FUNC({name}, qapi_free_{name})\n\n')


def in_order(objects):
    """Structs so that each comes after those it has inside it."""
    done = []

    def visit(obj):
        for branch in obj.branches.values():
            visit(branch)
        if obj not in done:
            done.append(obj)

    for obj in objects:
        visit(obj)
    return done


def emit_header(schema):
    types = list(schema.types.values())
    enums = [t for t in types if isinstance(t, Enum)]
    objects = [t for t in types if isinstance(t, Object)]
    alternates = [t for t in types if isinstance(t, Alternate)]
    text = HEAD + '#ifndef QAPI_TYPES_H\n#define QAPI_TYPES_H\n\n#include "qapi/visit.h"\n\n'
    text += ''.join(f'typedef struct {t.name} {t.name};\n' for t in objects + alternates) + '\n'
    text += ''.join(map(declare_enum, enums))
    text += ''.join(map(declare_object, in_order(objects)))
    text += ''.join(map(declare_alternate, alternates))
    text += ''.join(map(declare_ends, objects + alternates))
    for list_ in schema.lists.values():
        text += f'extern const QapiType qapi_type_{list_.name};\n'
    return text + '\n#endif\n'


def table_members(type_, container, has_ok):
    if not type_.members:
        return '', '0', 'NULL'
    text = f'static const QapiMember members_{type_.name}[] = {{\n'
    for member in type_.members:
        name = names.c_name(member.name)
        offset = f'offsetof({type_.name}, {container}{name})' if is_stored(member) else '0'
        has = f'offsetof({type_.name}, has_{name})' if has_ok and has_flag(member) else 'QAPI_NO_HAS'
        optional = 'true' if member.optional else 'false'
        text += (f'    {{ "{member.name}", &qapi_type_{member.type.name}, {offset}, {has}, '
                 f'{optional} }},\n')
    return text + '};\n', str(len(type_.members)), f'members_{type_.name}'


def table_enum(enum):
    values = ''.join(f'    "{v}",\n' for v in enum.values)
    return (f'static const char *const values_{enum.name}[] = {{\n{values}    NULL,\n}};\n'
            f'const QapiType qapi_type_{enum.name} = {{\n    .kind = QAPI_KIND_ENUM,\n'
            f'    .name = "{enum.name}",\n    .size = sizeof({enum.name}),\n'
            f'    .n_values = {len(enum.values)},\n    .values = values_{enum.name},\n}};\n\n')


def table_branches(obj):
    if not obj.tag:
        return '', ''
    text = f'static const QapiType *const branches_{obj.name}[{len(obj.tag.type.values)}] = {{\n'
    for value, branch in obj.branches.items():
        text += f'    [{names.constant(obj.tag.type.name, value)}] = &qapi_type_{branch.name},\n'
    offset = f'offsetof({obj.name}, u)' if obj.branches else '0'
    return (text + '};\n',
            f'    .tag = &members_{obj.name}[{obj.members.index(obj.tag)}],\n'
            f'    .branches = branches_{obj.name},\n    .branch_offset = {offset},\n')


def table_object(obj):
    members, count, array = table_members(obj, '', True)
    branches, fields = table_branches(obj)
    return (members + branches
            + f'const QapiType qapi_type_{obj.name} = {{\n    .kind = QAPI_KIND_OBJECT,\n'
            + f'    .name = "{obj.name}",\n    .size = sizeof({obj.name}),\n'
            + f'    .n_members = {count},\n    .members = {array},\n{fields}}};\n\n')


def table_alternate(alternate):
    members, count, array = table_members(alternate, 'u.', False)
    kinds = ', '.join(f'QAPI_JSON_{json_kind(m.type)}' for m in alternate.members)
    return (f'/* {kinds} */\n' + members
            + f'const QapiType qapi_type_{alternate.name} = {{\n'
            + f'    .kind = QAPI_KIND_ALTERNATE,\n    .name = "{alternate.name}",\n'
            + f'    .size = sizeof({alternate.name}),\n    .n_members = {count},\n'
            + f'    .members = {array},\n}};\n\n')


def table_list(list_):
    return (f'const QapiType qapi_type_{list_.name} = {{\n    .kind = QAPI_KIND_LIST,\n'
            f'    .name = "{list_.name}",\n    .size = sizeof(void *),\n'
            f'    .element = &qapi_type_{list_.element.name},\n}};\n\n')


def table_builtin(builtin):
    size = f'sizeof({builtin.c_type.strip()})' if builtin.c_type else '0'
    unsigned = 'true' if (builtin.c_type or '').startswith('u') else 'false'
    return (f'const QapiType qapi_type_{builtin.name} = {{\n    .kind = QAPI_KIND_{builtin.kind},\n'
            f'    .name = "{builtin.name}",\n    .size = {size},\n    .is_unsigned = {unsigned},\n'
            f'    .is_size = {"true" if builtin.name == "size" else "false"},\n}};\n\n')


def emit_tables(schema):
    emitters = {Builtin: table_builtin, Enum: table_enum, Object: table_object,
                Alternate: table_alternate}
    text = HEAD + '#include "qapi/qapi-types.h"\n\n#include <stddef.h>\n\n'
    for type_ in schema.types.values():
        text += emitters[type(type_)](type_)
    return text + ''.join(map(table_list, schema.lists.values()))
