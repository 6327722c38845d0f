# The schema as objects, checked: every name known, every shape sound, everything documented.
#
# SPDX-License-Identifier: GPL-2.0-or-later

import re

from names import camel
from parser import SchemaError

KEYS = {
    'enum': {'data'},
    'struct': {'data', 'base'},
    'union': {'data', 'base', 'discriminator'},
    'alternate': {'data'},
    'command': {'data', 'returns', 'deferred', 'gen'},
    'event': {'data'},
}
MEMBER_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_-]*$')
VALUE_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.-]*$')


class Builtin:
    """A type of the schema language. json: its JSON type as query-qmp-schema calls it."""

    def __init__(self, name, c_type, json, kind):
        self.name, self.c_type, self.json, self.kind = name, c_type, json, kind


class Enum:
    def __init__(self, name, values, features):
        self.name, self.values, self.features = name, values, features


class Member:
    """A member of an object or a branch of an alternate."""

    def __init__(self, name, type_, optional, features):
        self.name, self.type, self.optional, self.features = name, type_, optional, features


class Object:
    """A struct or union. members: inherited ones first. tag, branches: of a union."""

    def __init__(self, name):
        self.name = name
        self.members = []
        self.tag = None
        self.branches = {}


class Alternate:
    def __init__(self, name):
        self.name = name
        self.members = []


class List:
    def __init__(self, element):
        self.element = element
        self.name = element.name + 'List'


class Command:
    def __init__(self, name, context):
        self.name, self.context = name, context
        self.arg = self.ret = None
        self.deferred = False
        self.gen = True


class Event:
    def __init__(self, name):
        self.name = name
        self.arg = None
        self.boxed = False


def builtins():
    types = [Builtin('str', 'char *', 'string', 'STR'), Builtin('bool', 'bool', 'boolean', 'BOOL'),
             Builtin('number', 'double', 'number', 'NUMBER'), Builtin('null', None, 'null', 'NULL'),
             Builtin('any', 'json_object *', 'value', 'ANY'),
             Builtin('int', 'int64_t', 'int', 'INT'), Builtin('size', 'uint64_t', 'int', 'INT')]
    for bits in (8, 16, 32, 64):
        types.append(Builtin(f'int{bits}', f'int{bits}_t', 'int', 'INT'))
        types.append(Builtin(f'uint{bits}', f'uint{bits}_t', 'int', 'INT'))
    return {t.name: t for t in types}


class Schema:
    """types, commands and events by name, in the order of the files."""

    def __init__(self, definitions):
        self.types = builtins()
        self.lists = {}
        self.commands = {}
        self.events = {}
        self.contexts = []
        self.pending = []
        for definition in definitions:
            self.declare(definition)
        for target, definition in self.pending:
            self.fill(target, definition)

    def declare(self, d):
        metas = [key for key in KEYS if key in d.expr]
        if len(metas) != 1:
            raise SchemaError(d.where, 'one of ' + ', '.join(KEYS) + ' expected')
        d.meta = metas[0]
        d.name = d.expr[d.meta]
        extra = set(d.expr) - KEYS[d.meta] - {d.meta, 'features'}
        if extra:
            raise SchemaError(d.where, f'{d.name}: unknown keys {sorted(extra)}')
        d.features = [f if isinstance(f, str) else f['name'] for f in d.expr.get('features', [])]
        self.check_doc(d)
        getattr(self, 'declare_' + d.meta)(d)

    def check_doc(self, d):
        if not d.documented or d.documented[0] != d.name:
            raise SchemaError(d.where, f'{d.name}: no comment that begins with "# @{d.name}:"')
        wanted = self.own_names(d)
        documented = d.documented[1:]
        for name in wanted:
            if name not in documented:
                raise SchemaError(d.where, f'{d.name}: {name} is not documented')
        for name in documented:
            if name not in wanted:
                raise SchemaError(d.where, f'{d.name}: {name} is documented but not there')

    @staticmethod
    def own_names(d):
        data = d.expr.get('data', {})
        if d.meta == 'enum':
            names = [v if isinstance(v, str) else v['name'] for v in data]
        elif d.meta == 'union':
            names = d.expr['base'] if isinstance(d.expr['base'], dict) else []
        else:
            names = data if isinstance(data, dict) else []
        return [name.lstrip('*') for name in names]

    def add(self, table, name, item, d):
        if name in table:
            raise SchemaError(d.where, f'{name} is defined twice')
        table[name] = item
        return item

    def declare_enum(self, d):
        values, features = [], {}
        for value in d.expr['data']:
            name = value if isinstance(value, str) else value['name']
            if not VALUE_NAME.match(name) or name in values:
                raise SchemaError(d.where, f'{d.name}: bad or repeated value {name!r}')
            values.append(name)
            if not isinstance(value, str):
                features[name] = value.get('features', [])
        self.add(self.types, d.name, Enum(d.name, values, features), d)

    def declare_struct(self, d):
        self.pending.append((self.add(self.types, d.name, Object(d.name), d), d))

    declare_union = declare_struct

    def declare_alternate(self, d):
        self.pending.append((self.add(self.types, d.name, Alternate(d.name), d), d))

    def declare_command(self, d):
        if not d.context:
            raise SchemaError(d.where, f'{d.name}: the file has no context pragma')
        if d.context not in self.contexts:
            self.contexts.append(d.context)
        command = self.add(self.commands, d.name, Command(d.name, d.context), d)
        self.declare_argument(command, d, camel(d.name) + 'Arg')

    def declare_event(self, d):
        event = self.add(self.events, d.name, Event(d.name), d)
        self.declare_argument(event, d, camel(d.name) + 'EventArg')
        event.boxed = isinstance(d.expr.get('data'), str)

    def declare_argument(self, target, d, implicit_name):
        if isinstance(d.expr.get('data'), dict):
            target.arg = self.add(self.types, implicit_name, Object(implicit_name), d)
        self.pending.append((target, d))

    def fill(self, target, d):
        getattr(self, 'fill_' + d.meta)(target, d)
        target.features = d.features

    def lookup(self, spec, d):
        if isinstance(spec, list):
            if len(spec) != 1:
                raise SchemaError(d.where, f'{d.name}: a list has one type of element')
            element = self.lookup(spec[0], d)
            return self.lists.setdefault(element.name, List(element))
        if spec not in self.types:
            raise SchemaError(d.where, f'{d.name}: no type {spec!r}')
        return self.types[spec]

    def members(self, data, d):
        result = []
        for key, spec in data.items():
            name = key.lstrip('*')
            if not MEMBER_NAME.match(name) or name in ('u', 'kind') or name.startswith('has_'):
                raise SchemaError(d.where, f'{d.name}: bad member name {name!r}')
            features = []
            if isinstance(spec, dict):
                features = spec.get('features', [])
                spec = spec['type']
            result.append(Member(name, self.lookup(spec, d), key.startswith('*'), features))
        return result

    def base_members(self, base, d):
        if base is None:
            return []
        if isinstance(base, dict):
            return self.members(base, d)
        target = self.lookup(base, d)
        own = next((p for p in self.pending if p[0] is target), None)
        if not own or own[1].meta != 'struct':
            raise SchemaError(d.where, f'{d.name}: the base {base} is no struct')
        if not target.members:
            self.fill_struct(target, own[1])
        return list(target.members)

    def fill_struct(self, target, d):
        members = self.base_members(d.expr.get('base'), d) + self.members(d.expr['data'], d)
        self.check_clash(members, d)
        target.members = members

    @staticmethod
    def check_clash(members, d):
        names = [m.name.replace('-', '_') for m in members]
        for name in names:
            if names.count(name) > 1:
                raise SchemaError(d.where, f'{d.name}: member {name} is there twice')

    def fill_union(self, target, d):
        members = self.base_members(d.expr['base'], d)
        tag = next((m for m in members if m.name == d.expr['discriminator']), None)
        if not tag or not isinstance(tag.type, Enum) or tag.optional:
            raise SchemaError(d.where, f'{d.name}: the discriminator is no mandatory enum member')
        for value, spec in d.expr['data'].items():
            branch = self.lookup(spec, d)
            if value not in tag.type.values or not isinstance(branch, Object):
                raise SchemaError(d.where, f'{d.name}: branch {value} is no value or no struct')
            target.branches[value] = branch
        target.members, target.tag = members, tag

    def fill_alternate(self, target, d):
        target.members = self.members(d.expr['data'], d)
        kinds = [json_kind(m.type) for m in target.members]
        if len(set(kinds)) != len(kinds):
            raise SchemaError(d.where, f'{d.name}: two branches have the same JSON type')

    def fill_argument(self, target, d):
        data = d.expr.get('data')
        if isinstance(data, dict):
            self.fill_struct(target.arg, d)
            target.arg.features = []
        elif data is not None:
            target.arg = self.lookup(data, d)
            if not isinstance(target.arg, Object):
                raise SchemaError(d.where, f'{d.name}: data is no struct')

    def fill_command(self, target, d):
        self.fill_argument(target, d)
        target.deferred = d.expr.get('deferred', False)
        target.gen = d.expr.get('gen', True)
        if 'returns' in d.expr:
            target.ret = self.lookup(d.expr['returns'], d)
            if not is_pointer(target.ret):
                raise SchemaError(d.where, f'{d.name}: returns a struct, list, str or any')
        if target.deferred and not target.gen:
            raise SchemaError(d.where, f'{d.name}: gen:false cannot be deferred')

    fill_event = fill_argument


def json_kind(type_):
    """The QapiJsonKind of a type's values."""
    if isinstance(type_, Builtin):
        kinds = {'string': 'STRING', 'boolean': 'BOOL', 'number': 'NUMBER', 'int': 'NUMBER',
                 'null': 'NULL'}
        return kinds[type_.json]
    return {Enum: 'STRING', Object: 'OBJECT', List: 'ARRAY'}[type(type_)]


def is_pointer(type_):
    """Whether C keeps it behind a pointer, so that an optional one needs no has_NAME."""
    if isinstance(type_, Builtin):
        return type_.kind in ('STR', 'ANY')
    return not isinstance(type_, Enum)


def is_scalar(type_):
    """Whether a list of it is a GArray."""
    return not is_pointer(type_)
