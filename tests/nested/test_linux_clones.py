# Linux on this machine's /dev/kvm: saved once, eight copy-on-write clones work at the same time.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from linux_guest import TIMEOUT, file_sum  # noqa: E402

MEMORY = 64     # MiB of each guest
HELD = 4        # MiB that a process of the saved guest holds
CLONES = 8


@pytest.fixture(scope='module')
def saved(linux, tmp_path_factory):
    """A guest that has booted and whose process holds memory, saved to a file."""
    folder = tmp_path_factory.mktemp('saved')
    path = folder / 'ram'
    with linux.make(folder, 'first', MEMORY) as guest:
        guest.boot()
        guest.run(f'memwork hold {HELD} 7')
        state = {'path': path, 'count': guest.count(), 'sum': guest.blob_sum(), 'uptime': guest.uptime()}
        guest.save(path)
        guest.quit()
    state['file'] = file_sum(path)
    return state


class Clones:
    """All clones; a line is sent to every one before any answer is waited for."""

    def __init__(self, guests):
        self.guests = guests

    def run(self, line):
        """Outputs of a line in which {n} is the number of the clone."""
        for n, guest in enumerate(self.guests):
            guest.console.sock.sendall(line.format(n=n).encode() + b'\n')
        outputs = []
        for n, guest in enumerate(self.guests):
            output, match = guest.console.wait_for(r'guest: status (\d+)\n', TIMEOUT)
            assert match.group(1) == '0', f'clone {n}: {line}: {output}'
            outputs.append(output.strip())
        return outputs


def check_clones(clones, saved):
    # The process that was saved finds its memory, before and after others have worked.
    assert clones.run('memwork ask') == ['hold ok'] * CLONES
    assert clones.run('memwork work 2 1 {n}1') == ['memwork: 2 processes, 0 failed'] * CLONES
    assert clones.run('memwork ask') == ['hold ok'] * CLONES
    # Each writes a file of its own and finds that one.
    clones.run('echo clone {n} >/tmp/mine')
    assert clones.run('read text </tmp/mine; echo $text') == [f'clone {n}' for n in range(CLONES)]
    assert clones.run('sha256sum /tmp/blob') == [f'{saved["sum"]}  /tmp/blob'] * CLONES
    first = [int(text, 10) for text in clones.run('read n </tmp/count; echo $n')]
    clones.run('usleep 500000')
    second = [int(text, 10) for text in clones.run('read n </tmp/count; echo $n')]
    assert all(saved['count'] <= a < b for a, b in zip(first, second)), (saved['count'], first, second)


def test_eight_clones_work_at_once(linux, saved, tmp_path):
    guests = []
    try:
        for n in range(CLONES):
            guests.append(linux.make(tmp_path, f'clone{n}', MEMORY, incoming=True))
        for guest in guests:
            guest.restore(saved['path'], 'copy-on-write')
        check_clones(Clones(guests), saved)
        for guest in guests:
            assert guest.complaints() == ''
            if not guest.is_qemu:
                blocks = guest.qmp.command('query-ram-restore')['blocks']
                assert [b['mode'] for b in blocks if b['block'] == 'pc.ram'] == ['copy-on-write'], blocks
            guest.quit()
    finally:
        for guest in guests:
            guest.kill()
    assert file_sum(saved['path']) == saved['file'], 'a clone has written to the file'


def test_eager_restore_goes_on(linux, saved, tmp_path):
    with linux.make(tmp_path, 'eager', MEMORY, incoming=True) as guest:
        guest.restore(saved['path'], 'copy')
        assert guest.blob_sum() == saved['sum']
        assert guest.count() >= saved['count']
        assert guest.uptime() >= saved['uptime']
        assert guest.run('memwork work 2 1 5').strip() == 'memwork: 2 processes, 0 failed'
        guest.quit()
