# Reads schema files: JSON with strings in single quotes, and comments. A comment between two ##
# lines documents the definition after it.
#
# SPDX-License-Identifier: GPL-2.0-or-later

import os
import re

TOKEN = re.compile(r"""
    (?P<space>[ \t\r]+) | (?P<newline>\n) | (?P<comment>\#[^\n]*) | (?P<punct>[{}\[\]:,])
  | '(?P<string>[^'\\\n]*)' | (?P<word>true|false)""", re.X)

DOC_NAME = re.compile(r'# @([^:\s]+):(?:\s|$)')


class SchemaError(Exception):
    """What is wrong, and where."""

    def __init__(self, where, message):
        super().__init__(f'{where}: {message}')


class Definition:
    """One top-level expression with its place, its documentation and its file's context."""

    def __init__(self, expr, where, documented, context):
        self.expr = expr
        self.where = where
        self.documented = documented    # names written as '# @NAME:', the definition's own first
        self.context = context


class FileParser:
    """The tokens of one file and a cursor."""

    def __init__(self, path):
        self.path = path
        self.tokens = []
        self.pos = 0
        with open(path, encoding='ascii') as file:
            self.lex(file.read())

    def lex(self, text):
        line, pos = 1, 0
        while pos < len(text):
            match = TOKEN.match(text, pos)
            if not match:
                raise SchemaError(f'{self.path}:{line}', f'stray character {text[pos]!r}')
            kind = match.lastgroup
            if kind == 'newline':
                line += 1
            elif kind != 'space':
                self.tokens.append((kind, match.group(kind), line))
            pos = match.end()
        self.tokens.append(('end', '', line))

    def where(self):
        return f'{self.path}:{self.tokens[self.pos][2]}'

    def peek(self):
        return self.tokens[self.pos][:2]

    def take(self):
        token = self.tokens[self.pos][:2]
        self.pos += 1
        return token

    def skip_comments(self):
        while self.peek()[0] == 'comment':
            self.pos += 1

    def expect(self, text):
        self.skip_comments()
        if self.peek() != ('punct', text):
            raise SchemaError(self.where(), f'{text!r} expected before {self.peek()[1]!r}')
        self.pos += 1

    def at(self, text):
        self.skip_comments()
        return self.peek() == ('punct', text)

    def value(self):
        self.skip_comments()
        kind, text = self.peek()
        if kind == 'string':
            self.pos += 1
            return text
        if kind == 'word':
            self.pos += 1
            return text == 'true'
        if text == '{':
            return self.object()
        if text == '[':
            return self.list()
        raise SchemaError(self.where(), f'a value expected before {text!r}')

    def object(self):
        self.expect('{')
        result = {}
        while not self.at('}'):
            if result:
                self.expect(',')
            self.skip_comments()
            kind, key = self.take()
            if kind != 'string' or key in result:
                raise SchemaError(self.where(), f'{key!r} is no new key')
            self.expect(':')
            result[key] = self.value()
        self.expect('}')
        return result

    def list(self):
        self.expect('[')
        result = []
        while not self.at(']'):
            if result:
                self.expect(',')
            result.append(self.value())
        self.expect(']')
        return result

    def doc(self):
        """The names a ## block documents; the cursor is on its first line."""
        names = []
        self.pos += 1
        while self.peek()[0] == 'comment' and self.peek()[1] != '##':
            match = DOC_NAME.match(self.take()[1])
            if match:
                names.append(match.group(1))
        if self.peek()[0] != 'comment':
            raise SchemaError(self.where(), 'the comment begun by ## does not end with ##')
        self.pos += 1
        return names


def parse(path, seen=None):
    """All definitions of a file and the files it includes, each file once."""
    seen = set() if seen is None else seen
    real = os.path.realpath(path)
    if real in seen:
        return []
    seen.add(real)
    parser = FileParser(path)
    definitions, documented, context = [], [], None
    while parser.peek()[0] != 'end':
        kind, text = parser.peek()
        if kind == 'comment':
            if text == '##':
                documented = parser.doc()
            else:
                parser.take()
            continue
        where = parser.where()
        expr = parser.object()
        if 'include' in expr:
            definitions += parse(os.path.join(os.path.dirname(path), expr['include']), seen)
        elif 'pragma' in expr:
            context = expr['pragma'].get('context')
        else:
            definitions.append(Definition(expr, where, documented, context))
        documented = []
    return definitions


def files(path):
    """The files a schema is made of."""
    seen = set()
    parse(path, seen)
    return sorted(seen)
