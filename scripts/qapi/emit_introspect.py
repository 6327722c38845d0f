# Writes qapi-introspect.c: the answer to query-qmp-schema as JSON text.
#
# The shape is that of QEMU's query-qmp-schema. Only what a command or event reaches is in it, type
# names are masked by numbers (they are no interface), and the integers are all "int".
#
# SPDX-License-Identifier: GPL-2.0-or-later

import json

from emit_types import HEAD
from schema import Alternate, Builtin, Enum, List, Object


class Introspection:
    """The entries, and the types met on the way whose own entries are still to be made."""

    def __init__(self, schema):
        self.entries = []
        self.queue = []
        self.numbers = {}
        self.met = set()
        self.have_empty = False
        for command in schema.commands.values():
            self.command(command)
        for event in schema.events.values():
            self.event(event)
        while self.queue:
            self.type(self.queue.pop(0))
        if self.have_empty:
            self.entries.append({'name': '0', 'meta-type': 'object', 'members': []})

    def ref(self, type_):
        """The name other entries call a type by."""
        if type_ is None:
            self.have_empty = True
            return '0'
        if isinstance(type_, List):
            name = '[' + self.ref(type_.element) + ']'
        elif isinstance(type_, Builtin):
            name = 'int' if type_.json == 'int' else type_.name
        else:
            name = self.numbers.setdefault(type_.name, str(len(self.numbers) + 1))
        if name not in self.met:
            self.met.add(name)
            self.queue.append((name, type_))
        return name

    def add(self, entry, features):
        if features:
            entry['features'] = features
        self.entries.append(entry)

    def command(self, command):
        self.add({'name': command.name, 'meta-type': 'command', 'arg-type': self.ref(command.arg),
                  'ret-type': self.ref(command.ret)}, command.features)

    def event(self, event):
        self.add({'name': event.name, 'meta-type': 'event', 'arg-type': self.ref(event.arg)},
                 event.features)

    def member(self, member):
        entry = {'name': member.name, 'type': self.ref(member.type)}
        if member.optional:
            entry['default'] = None
        if member.features:
            entry['features'] = member.features
        return entry

    def type(self, item):
        name, type_ = item
        entry = {'name': name}
        if isinstance(type_, Builtin):
            entry.update({'meta-type': 'builtin', 'json-type': type_.json})
        elif isinstance(type_, List):
            entry.update({'meta-type': 'array', 'element-type': self.ref(type_.element)})
        elif isinstance(type_, Enum):
            entry.update(self.enum(type_))
        elif isinstance(type_, Alternate):
            entry.update({'meta-type': 'alternate',
                          'members': [{'type': self.ref(m.type)} for m in type_.members]})
        else:
            entry.update(self.object(type_))
        self.add(entry, type_.features if isinstance(type_, (Object, Alternate)) else [])

    @staticmethod
    def enum(enum):
        members = []
        for value in enum.values:
            member = {'name': value}
            if enum.features.get(value):
                member['features'] = enum.features[value]
            members.append(member)
        return {'meta-type': 'enum', 'members': members, 'values': enum.values}

    def object(self, obj):
        entry = {'meta-type': 'object', 'members': [self.member(m) for m in obj.members]}
        if obj.tag:
            entry['tag'] = obj.tag.name
            entry['variants'] = [{'case': value, 'type': self.ref(obj.branches.get(value))}
                                 for value in obj.tag.type.values]
        return entry


def c_string(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


def emit_source(schema):
    entries = Introspection(schema).entries
    lines = [json.dumps(entry, separators=(',', ':')) for entry in entries]
    text = HEAD + '#include "qapi/introspect.h"\n\nconst char qapi_schema_text[] =\n    "["\n'
    for index, line in enumerate(lines):
        comma = ',' if index + 1 < len(lines) else ''
        text += f'    {c_string(line + comma)}\n'
    return text + '    "]";\n'
