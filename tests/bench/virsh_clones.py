# Clones under libvirt: what the save file of one has, and what starting many costs.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import struct
import time

from common import MIB, BenchError, Figure, interleave, spread
from virsh import libvirt

from template import INCREMENTAL, Template, libvirt_folder
from domain import Domain

MEMORY = '2G'
WRITTEN = 64 * MIB
CLONES = 8
ROUNDS = 5


class Domains:
    """As the fixture of tests/libvirt: makes domains and removes them all."""

    def __init__(self, lv):
        self.lv, self.all = lv, []

    def __call__(self, name, **options):
        made = Domain(self.lv, f'bench-{name}-{os.getpid()}', self.lv.emulator, self.lv.kernel, **options)
        self.all.append(made)
        return made

    def boot(self, name, **options):
        return self(name, **options).boot()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for made in self.all:
            made.destroy_undefine()


def data_pages(lv, mark):
    """As the last query-migrate in libvirt's log told."""
    pages = [message['return']['ram']['data-pages'] for _, _, message in lv.qmp_log(mark)
             if isinstance(message.get('return'), dict) and 'data-pages' in message['return'].get('ram', {})]
    if not pages:
        raise BenchError('libvirt asked for no figures of the save')
    return pages[-1]


def virsh_save_clone_bytes(context):
    """Bytes beyond libvirt's header in the save file of a clone of 2 GiB that has written 64 MiB, over its data pages."""
    with libvirt(context, 9) as lv, Domains(lv) as domains:
        template = Template(domains, libvirt_folder(lv.folder, 'saved-clone'), memory=MEMORY)
        clone = template.clone('saved').define().start()
        clone.console.command(f'write 60 {32 * MIB} {WRITTEN}')
        mark, path = lv.log_mark(), lv.folder / 'clone.save'
        clone.save(path)
        with open(path, 'rb') as file:
            header = 92 + struct.unpack_from('<5I', file.read(92), 16)[1]
        size, pages = path.stat().st_size - header, data_pages(lv, mark)
        path.unlink()
    return Figure('virsh_save_clone_bytes', size / (pages * 4096), 'x', {'bytes': size, 'data_pages': pages},
                  floor=WRITTEN // 4096)


def start_all(lv, domains, words):
    """Milliseconds for all of them, by one virsh."""
    begin = time.monotonic()
    lv.virsh('; '.join(f'start {domain.name} {words}' for domain in domains))
    taken = (time.monotonic() - begin) * 1000
    for domain in domains:
        domain.destroy()
    return taken


def clone_domains_8(context):
    """What is ours of starting 8 clones of 2 GiB, a clone: more than starting 8 domains that never run (-S). libvirt's own part
    differs by hundreds of ms from time to time, so the least times of the rounds are taken."""
    with libvirt(context, 9) as lv, Domains(lv) as domains:
        template = Template(domains, libvirt_folder(lv.folder, 'clone-domains'), memory=MEMORY)
        clones = [template.clone(f'clone{number}', INCREMENTAL).define() for number in range(CLONES)]
        idle = [domains(f'idle{number}', memory=MEMORY).define() for number in range(CLONES)]
        samples = interleave({'clones': lambda: start_all(lv, clones, ''),
                              'idle': lambda: start_all(lv, idle, '--paused')}, ROUNDS)
    parts = {name: spread(values, 0) for name, values in samples.items()}
    ms = (min(samples['clones']) - min(samples['idle'])) / CLONES
    return Figure('clone_domains_8', ms, 'ms', parts,
                  note=f'least time of virsh start of {CLONES} clones and of {CLONES} domains with --paused, whatever else '
                       'the machine does; in ms altogether')
