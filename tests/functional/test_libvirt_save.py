# Saving and restoring with the very commands and descriptors that libvirt uses, without libvirt.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import threading

import pytest
from libvirt_save import Restore, Save

PAIRS = [('raw', False, 1), ('raw', True, 1), ('sparse', False, 1), ('sparse', False, 4), ('sparse', True, 1), ('sparse', True, 3)]
NAMES = [f'{fmt}{"-bypass" if bypass else ""}-{channels}' for fmt, bypass, channels in PAIRS]


@pytest.mark.parametrize('fmt, bypass, channels', PAIRS, ids=NAMES)
def test_save_and_restore(machines, folder, fmt, bypass, channels):
    source = machines.filled(memory='160M')
    save = Save(source, folder / 's', fmt, bypass_cache=bypass, channels=channels)
    save.run()
    assert save.seen == ['setup', 'active', 'completed']
    save.terminate()
    machines.end(source)
    target = Restore(machines.start, folder / 's', fmt, bypass, channels, memory='160M').machine
    assert target.console.verify(7) == source.pages
    block = target.restored_blocks()['pc.ram']
    assert block['mode'] == ('copy' if fmt == 'raw' else 'copy-on-write'), block
