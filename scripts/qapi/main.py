#!/usr/bin/python3
# Writes the generated sources: main.py SCHEMA OUTPUT-FOLDER, or main.py --files SCHEMA to list the
# files the schema is made of.
#
# SPDX-License-Identifier: GPL-2.0-or-later

import os
import sys

import emit_commands
import emit_events
import emit_introspect
import emit_types
import parser
from schema import Schema

OUTPUTS = {
    'qapi-types.h': emit_types.emit_header,
    'qapi-tables.c': emit_types.emit_tables,
    'qapi-commands.h': emit_commands.emit_header,
    'qapi-commands.c': emit_commands.emit_table,
    'qapi-events.h': emit_events.emit_header,
    'qapi-events.c': emit_events.emit_source,
    'qapi-introspect.c': emit_introspect.emit_source,
}


def main(args):
    try:
        if args[0] == '--files':
            print('\n'.join(parser.files(args[1])))
            return 0
        schema = Schema(parser.parse(args[0]))
    except (parser.SchemaError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, emit in OUTPUTS.items():
        with open(os.path.join(args[1], name), 'w', encoding='ascii') as file:
            file.write(emit(schema))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
