# C names from schema names.
#
# SPDX-License-Identifier: GPL-2.0-or-later

import re

# Words that C, C's headers or GNU C's predefined macros have taken.
RESERVED = set('''
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef typeof union
unsigned void volatile while asm bool true false errno stdin stdout stderr linux unix i386
'''.split())


def c_name(name):
    """A C identifier for a member, branch or function name."""
    text = re.sub(r'[^A-Za-z0-9_]', '_', name)
    if text in RESERVED or text[0].isdigit():
        return 'q_' + text
    return text


def snake(camel):
    """run_state from RunState, qmp_capability from QMPCapability, mon_3d from Mon3D."""
    text = re.sub(r'([A-Z]+)([A-Z][a-z])', r'\1_\2', camel.replace('-', '_'))
    text = re.sub(r'([a-z0-9])([A-Z])', r'\1_\2', text)
    return re.sub(r'_+', '_', text).lower()


def camel(name):
    """MigrateSetCapabilities from migrate-set-capabilities; QmpCapabilities from qmp_capabilities."""
    return ''.join(part[:1].upper() + part[1:].lower() for part in re.split(r'[-_]', name))


def constant(type_name, value):
    """RUN_STATE_GUEST_PANICKED from RunState, guest-panicked."""
    return snake(type_name).upper() + '_' + re.sub(r'[^A-Za-z0-9]', '_', value).upper()


def context_constant(context):
    """QAPI_CONTEXT_MIGRATION_STATE from MigrationState."""
    return 'QAPI_CONTEXT_' + snake(context).upper()
