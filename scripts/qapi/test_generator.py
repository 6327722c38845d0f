#!/usr/bin/python3
# Tests of the generator: what it refuses, and names in C.
#
# SPDX-License-Identifier: GPL-2.0-or-later

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import emit_commands
import emit_introspect
import names
import parser
from schema import Schema

PRAGMA = "{ 'pragma': { 'context': 'Thing' } }\n"


def doc(*lines):
    return '##\n' + ''.join(f'# {line}\n' for line in lines) + '##\n'


def load(text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'x.json')
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        return Schema(parser.parse(path))


class Names(unittest.TestCase):
    def test_snake(self):
        for camel, snake in (('RunState', 'run_state'), ('QMPCapability', 'qmp_capability'),
                             ('SMPConfiguration', 'smp_configuration'), ('Mon3D', 'mon3_d'),
                             ('RAM_LOST', 'ram_lost')):
            self.assertEqual(names.snake(camel), snake)

    def test_others(self):
        self.assertEqual(names.constant('RunState', 'guest-panicked'), 'RUN_STATE_GUEST_PANICKED')
        self.assertEqual(names.camel('query-cpus-fast'), 'QueryCpusFast')
        self.assertEqual(names.c_name('default'), 'q_default')
        self.assertEqual(names.c_name('fdset-id'), 'fdset_id')


class Refused(unittest.TestCase):
    def refuse(self, text, message):
        with self.assertRaises(parser.SchemaError) as caught:
            load(text)
        self.assertIn(message, str(caught.exception))

    def test_syntax(self):
        self.refuse('{ "struct": 1 }', 'stray character')
        self.refuse("{ 'struct' }", "':' expected")
        self.refuse("{ 'a': 'b' 'c': 'd' }", "',' expected")
        self.refuse("{ 'a': 'b', 'a': 'd' }", 'no new key')
        self.refuse("##\n# @X:\n{ 'struct': 'X', 'data': {} }", 'does not end with ##')

    def test_documentation(self):
        self.refuse("{ 'struct': 'X', 'data': {} }", 'no comment')
        self.refuse(doc('@Y:') + "{ 'struct': 'X', 'data': {} }", 'no comment')
        self.refuse(doc('@X:') + "{ 'struct': 'X', 'data': { 'a': 'int' } }", 'a is not documented')
        self.refuse(doc('@X:', '@b: b') + "{ 'struct': 'X', 'data': {} }", 'b is documented but')

    def test_names(self):
        self.refuse(doc('@X:', '@a: a') + "{ 'struct': 'X', 'data': { 'a': 'Y' } }", "no type 'Y'")
        self.refuse(doc('@X:') + "{ 'struct': 'X', 'data': {} }\n"
                    + doc('@X:') + "{ 'struct': 'X', 'data': {} }", 'defined twice')
        self.refuse(doc('@X:', '@a: a') + "{ 'enum': 'X', 'data': [ 'a', 'a' ] }", 'repeated value')
        self.refuse(doc('@X:', '@a-b: a', '@a_b: b')
                    + "{ 'struct': 'X', 'data': { 'a-b': 'int', 'a_b': 'int' } }", 'there twice')
        self.refuse(doc('@X:', '@has_a: a') + "{ 'struct': 'X', 'data': { 'has_a': 'int' } }",
                    'bad member name')
        self.refuse(doc('@X:') + "{ 'struct': 'X', 'data': {}, 'if': 'Y' }", 'unknown keys')

    def test_shapes(self):
        enum = doc('@E:', '@a: a') + "{ 'enum': 'E', 'data': [ 'a' ] }\n"
        self.refuse(enum + doc('@U:', '@t: t') + "{ 'union': 'U', 'base': { '*t': 'E' },"
                    " 'discriminator': 't', 'data': {} }", 'no mandatory enum')
        self.refuse(enum + doc('@U:', '@t: t') + "{ 'union': 'U', 'base': { 't': 'E' },"
                    " 'discriminator': 't', 'data': { 'b': 'E' } }", 'branch b')
        self.refuse(doc('@A:', '@x: x', '@y: y')
                    + "{ 'alternate': 'A', 'data': { 'x': 'int', 'y': 'number' } }", 'same JSON type')
        self.refuse(enum + doc('@S:') + "{ 'struct': 'S', 'base': 'E', 'data': {} }", 'no struct')

    def test_commands(self):
        self.refuse(doc('@c:') + "{ 'command': 'c' }", 'no context pragma')
        self.refuse(PRAGMA + doc('@c:') + "{ 'command': 'c', 'returns': 'int' }", 'returns a struct')
        self.refuse(PRAGMA + doc('@c:') + "{ 'command': 'c', 'gen': false, 'deferred': true }",
                    'cannot be deferred')


class Written(unittest.TestCase):
    TEXT = (PRAGMA + doc('@S:', '@a: a') + "{ 'struct': 'S', 'data': { '*a': [ 'int8' ] },"
            " 'features': [ 'f' ] }\n"
            + doc('@do-it:') + "{ 'command': 'do-it', 'data': 'S', 'returns': [ 'S' ] }\n"
            + doc('@E:', '@x: x') + "{ 'event': 'E', 'data': { 'x': 'bool' } }\n"
            + doc('@Unused:') + "{ 'struct': 'Unused', 'data': {} }\n")

    def test_prototype(self):
        header = emit_commands.emit_header(load(self.TEXT))
        self.assertIn('GPtrArray *qmp_do_it(Thing *ctx, const S *arg, GError **errp);', header)
        self.assertIn('typedef struct Thing Thing;', header)

    def test_introspection(self):
        entries = {e['name']: e for e in
                   emit_introspect.Introspection(load(self.TEXT)).entries}
        command = entries['do-it']
        argument = entries[command['arg-type']]
        self.assertEqual(argument['members'], [{'name': 'a', 'type': '[int]', 'default': None}])
        self.assertEqual(argument['features'], ['f'])
        self.assertEqual(entries[command['ret-type']]['element-type'], command['arg-type'])
        self.assertEqual(entries['[int]'], {'name': '[int]', 'meta-type': 'array',
                                            'element-type': 'int'})
        self.assertEqual(entries['int']['json-type'], 'int')
        self.assertEqual(len(entries), 8)


if __name__ == '__main__':
    unittest.main()
