# dump-guest-memory: contents, registers, what it costs, what may happen meanwhile, and what is refused.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import filecmp
import os
import re
import resource
import subprocess
import threading

import pytest

import vm as vmlib
from core_file import CoreFile
from kdump_file import KdumpFile
from qmp import QmpError

MIB = 1 << 20
PAGES = MIB // 4096


def rss(machine):
    """KiB of the process in memory."""
    with open(f'/proc/{machine.pid}/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * 4


def dump(machine, path, **arguments):
    """Dump to a file and read it."""
    machine.qmp.command('dump-guest-memory', paging=False, protocol=f'file:{path}', **arguments)
    return CoreFile(path)


def check_pages(core, folder, seed, start, length, step=1, others=False):
    image = core.write_image(folder / 'image')
    done = subprocess.run([vmlib.build_dir() / 'tests/guest/page-oracle', 'verify', str(seed), image, str(start), str(start),
                           str(length), str(step), *(['others'] if others else [])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def check_equals_memory(core, machine, folder, size):
    """Byte for byte what the guest, which is stopped, has below 3 GiB."""
    machine.qmp.command('pmemsave', val=0, size=size, filename=str(folder / 'memory'))
    image = core.write_image(folder / 'image')
    os.truncate(image, size)
    assert filecmp.cmp(image, folder / 'memory', shallow=False)


class Reader:
    """Takes a dump out of a pipe, as libvirt's helper does; reads nothing before go()."""

    def __init__(self, path):
        self.path, self.thread = path, threading.Thread(target=self._copy)
        self.source, self.target = os.pipe()

    def _copy(self):
        with open(self.source, 'rb') as source, open(self.path, 'wb') as out:
            while data := source.read(1 << 20):
                out.write(data)

    def give(self, machine, name='dump'):
        machine.qmp.command('getfd', fdname=name, fds=[self.target])
        os.close(self.target)

    def go(self):
        self.thread.start()

    def finish(self):
        """The dump, once all of it was read."""
        self.thread.join()
        return CoreFile(self.path)


@pytest.fixture
def stuck(machines, folder):
    """A guest whose dump cannot go on before reader.go()."""
    machine = machines.filled(memory='160M')
    reader = Reader(folder / 'core')
    reader.give(machine)
    machine.qmp.command('dump-guest-memory', paging=False, protocol='fd:dump', detach=True)
    return machine, reader


# Contents


@pytest.mark.parametrize('memory, start', [('256M', 2 * MIB), ('3G', 2900 * MIB), ('4G', 4096 * MIB), ('5G', 4608 * MIB)])
def test_holds_what_the_guest_wrote(machines, folder, memory, start):
    machine = machines.boot(memory=memory)
    machine.console.fill(3, start, 32 * MIB)
    machine.console.fill(4, start + 40 * MIB, 16 * MIB)
    core = dump(machine, folder / 'core')
    check_pages(core, folder, 3, start, 32 * MIB)
    check_pages(core, folder, 4, start + 40 * MIB, 16 * MIB)
    check_pages(core, folder, 0, start + 64 * MIB, 16 * MIB)
    assert core.length() >= int(memory[:-1]) * (1 << (30 if memory[-1] == 'G' else 20))


def test_every_byte_of_a_full_guest(machines, folder):
    machine = machines.filled(memory='160M')
    machine.qmp.command('stop')
    core = dump(machine, folder / 'core')
    check_equals_memory(core, machine, folder, 160 * MIB)
    assert machine.qmp.command('query-status')['status'] == 'paused'


def test_clone_is_its_file_and_what_it_wrote(machines, saved, folder):
    machine = machines.restore(saved.path, 'copy-on-write', **saved.options)
    machine.console.command(f'write 50 {64 * MIB} {32 * MIB} 2')
    machine.console.command(f'zero {100 * MIB} {8 * MIB}')
    machine.qmp.command('stop')
    before, mapped = rss(machine), machine.restored_blocks()['pc.ram']
    core = dump(machine, folder / 'core')
    after = machine.restored_blocks()['pc.ram']
    assert rss(machine) < before + 6 * 1024
    assert after['private-pages'] == mapped['private-pages'] and after['resident-pages'] == mapped['resident-pages']
    check_pages(core, folder, 50, 64 * MIB, 32 * MIB, 2)
    check_pages(core, folder, saved.seed, 64 * MIB, 32 * MIB, 2, others=True)
    check_pages(core, folder, 0, 100 * MIB, 8 * MIB)
    check_equals_memory(core, machine, folder, 160 * MIB)


def test_clone_of_an_increment(machines, saved, folder):
    one = machines.restore(saved.path, **saved.options)
    one.console.command(f'write 70 {32 * MIB} {4 * MIB}')
    one.console.command(f'zero {40 * MIB} {4 * MIB}')
    one.save_increment(folder / 'one')
    machines.end(one)
    machine = machines.restore(folder / 'one', run=False, **saved.options)
    core = dump(machine, folder / 'core')
    check_pages(core, folder, 70, 32 * MIB, 4 * MIB)
    check_pages(core, folder, 0, 40 * MIB, 4 * MIB)
    check_equals_memory(core, machine, folder, 160 * MIB)


def test_released_memory_is_zero(machines, saved_balloon, folder):
    """What the balloon took from a clone is not what the file has there."""
    machine = machines.restore(saved_balloon.path, 'copy-on-write', **saved_balloon.options)
    machine.console.command(f'inflate {64 * MIB} {16 * MIB}')
    assert machine.restored_blocks()['pc.ram']['chunks-released'] == 8
    machine.qmp.command('stop')
    core = dump(machine, folder / 'core')
    check_pages(core, folder, 0, 64 * MIB, 16 * MIB)
    check_pages(core, folder, saved_balloon.seed, 80 * MIB, 16 * MIB)
    check_equals_memory(core, machine, folder, 160 * MIB)


@pytest.mark.parametrize('backend', ['memory-backend-memfd,id=m,size=256M', 'memory-backend-ram,id=m,size=256M,share=on',
                                     'memory-backend-file,id=m,size=256M,share=on,mem-path=FOLDER/ram',
                                     'memory-backend-file,id=m,size=256M,share=off,mem-path=FOLDER/ram'])
def test_memory_of_every_kind(machines, folder, backend):
    machine = machines.boot(memory='256M', machine='pc,memory-backend=m', args=['-object', backend.replace('FOLDER', str(folder))])
    machine.console.fill(9, 32 * MIB, 16 * MIB)
    machine.qmp.command('stop')
    before = rss(machine)
    core = dump(machine, folder / 'core')
    assert rss(machine) < before + 6 * 1024
    assert (folder / 'core').stat().st_blocks * 512 < 40 * MIB
    check_pages(core, folder, 9, 32 * MIB, 16 * MIB)
    check_equals_memory(core, machine, folder, 256 * MIB)


def test_private_pages_over_a_file_of_the_user(machines, folder):
    """Data of the file that nobody has touched is in the dump and not read through the mapping."""
    with open(folder / 'ram', 'wb') as file:
        file.truncate(256 * MIB)
        file.seek(128 * MIB)
        file.write(b'\xa5' * (8 * MIB))
    machine = machines.boot(memory='256M', machine='pc,memory-backend=m',
                            args=['-object', f'memory-backend-file,id=m,size=256M,share=off,mem-path={folder}/ram'])
    machine.console.fill(9, 130 * MIB, 2 * MIB)
    machine.qmp.command('stop')
    before = rss(machine)
    core = dump(machine, folder / 'core')
    assert rss(machine) < before + 4 * 1024
    check_pages(core, folder, 9, 130 * MIB, 2 * MIB)
    check_equals_memory(core, machine, folder, 256 * MIB)


def test_part_of_memory(machines, folder):
    machine = machines.boot(memory='256M')
    machine.console.fill(5, 32 * MIB, 8 * MIB)
    core = dump(machine, folder / 'core', begin=34 * MIB, length=4 * MIB)
    assert [(s.address, s.length) for s in core.segments] == [(34 * MIB, 4 * MIB)]
    check_pages(core, folder, 5, 34 * MIB, 4 * MIB)
    odd = dump(machine, folder / 'odd', begin=34 * MIB + 100, length=5000)
    assert odd.length() == 5000
    with open(folder / 'image', 'rb') as whole, open(odd.write_image(folder / 'image2'), 'rb') as part:
        whole.seek(34 * MIB + 100)
        part.seek(34 * MIB + 100)
        assert whole.read(5000) == part.read(5000)


def test_registers(machines, folder):
    """Of the first CPU those that `info registers` tells; one note of each kind a CPU."""
    machine = machines.boot(memory='160M', cpus=2)
    machine.qmp.command('stop')
    core = dump(machine, folder / 'core')
    assert [(n.name, n.type) for n in core.notes] == [('CORE', 1)] * 2 + [('QEMU', 0)] * 2
    assert core.pids() == [1, 2]
    text = machine.qmp.command('human-monitor-command', command_line='info registers')
    told = {name.lower(): int(value, 16) for name, value in re.findall(r'\b(R[A-Z0-9]{1,2}) *=([0-9a-f]{16})', text)}
    first = core.registers()[0]
    assert len(told) >= 17 and {name: first[name] for name in told if name in first} == told
    assert all(registers['cs'] and registers['rflags'] & 2 for registers in core.registers())


def test_readelf_reads_it(machines, folder):
    machine = machines.boot(memory='160M')
    core = dump(machine, folder / 'core')
    text = subprocess.run(['readelf', '-h', '-l', '-n', folder / 'core'], check=True, capture_output=True, text=True)
    assert 'CORE (Core file)' in text.stdout and 'NT_PRSTATUS' in text.stdout and not text.stderr
    assert len(core.segments) == text.stdout.count('LOAD ')


def test_kdump_of_a_clone(machines, folder):
    """The same memory and notes as in the ELF file, through a pipe and into a file."""
    first = machines.boot(memory='160M')
    first.console.fill(7, 64 * MIB, 6 * MIB)
    first.save(folder / 'base')
    machines.end(first)
    machine = machines.restore(folder / 'base', 'copy-on-write', memory='160M')
    machine.console.command(f'write 50 {65 * MIB} {1 * MIB} 2')
    machine.console.command(f'zero {68 * MIB} {1 * MIB}')
    machine.qmp.command('stop')
    before = rss(machine)
    core = dump(machine, folder / 'core')
    machine.qmp.command('dump-guest-memory', paging=False, protocol=f'file:{folder}/kdump', format='kdump-zlib')
    assert rss(machine) < before + 6 * 1024
    kdump = KdumpFile(folder / 'kdump', folder / 'flat')
    assert kdump.cpus == 1 and kdump.max_pfn * 4096 >= 160 * MIB
    assert kdump.notes.count(b'CORE\0') == 1 and kdump.notes.count(b'QEMU\0') == 1
    assert kdump.pages() == core.pages()
    reader = Reader(folder / 'piped')
    reader.give(machine)
    reader.go()
    machine.qmp.command('dump-guest-memory', paging=False, protocol='fd:dump', format='kdump-zlib')
    reader.thread.join()
    assert (folder / 'piped').stat().st_size == (folder / 'kdump').stat().st_size


def test_kdump_of_a_guest_with_a_hole(machines, folder):
    machine = machines.boot(memory='4G')
    machine.console.fill(3, 4096 * MIB, 4 * MIB)
    machine.qmp.command('stop')
    before = rss(machine)
    core = dump(machine, folder / 'core')
    machine.qmp.command('dump-guest-memory', paging=False, protocol=f'file:{folder}/kdump', format='kdump-zlib')
    assert rss(machine) < before + 6 * 1024
    assert (folder / 'kdump').stat().st_size < 64 * MIB
    kdump = KdumpFile(folder / 'kdump', folder / 'flat')
    assert kdump.pages() == core.pages()


# Cost


def test_untouched_memory_costs_nothing(machines, folder):
    machine = machines.boot(memory='2G')
    machine.console.fill(3, 1024 * MIB, 16 * MIB)
    machine.console.command(f'write 4 {256 * MIB} {512 * MIB} 16384')
    before = rss(machine)
    core = dump(machine, folder / 'core')
    assert rss(machine) < before + 4 * 1024
    assert (folder / 'core').stat().st_blocks * 512 < (64 + 16) * MIB
    assert core.length() >= 2048 * MIB and len(core.segments) < 64
    reader = Reader(folder / 'piped')
    reader.give(machine)
    reader.go()
    machine.qmp.command('dump-guest-memory', paging=False, protocol='fd:dump')
    reader.finish()
    assert (folder / 'piped').stat().st_size < (64 + 16) * MIB
    assert rss(machine) < before + 4 * 1024


# As libvirt does it, and what happens meanwhile


def test_detached_through_a_pipe(stuck, folder):
    machine, reader = stuck
    machine.qmp.event('STOP')
    state = machine.qmp.command('query-dump')
    assert state['status'] == 'active' and state['completed'] < state['total'] == 160 * MIB + state['total'] % MIB
    assert machine.qmp.command('query-status') == {'running': False, 'status': 'save-vm'}
    reader.go()
    result = machine.qmp.event('DUMP_COMPLETED')['data']
    assert result == {'result': {'status': 'completed', 'completed': state['total'], 'total': state['total']}}
    machine.qmp.event('RESUME')
    assert machine.qmp.command('query-dump')['status'] == 'completed'
    check_pages(reader.finish(), folder, 7, 2 * MIB, 150 * MIB)
    assert machine.console.command('ping') == 'pong'


@pytest.mark.parametrize('command, arguments, said', [
    ('cont', {}, 'dump'), ('system_reset', {}, 'dump'), ('migrate', {'uri': 'exec:cat >/dev/null'}, 'dump'),
    ('dump-guest-memory', {'paging': False, 'protocol': 'file:/dev/null'}, 'already')])
def test_refused_meanwhile(stuck, command, arguments, said):
    machine, reader = stuck
    with pytest.raises(QmpError, match=said):
        machine.qmp.command(command, arguments)
    reader.go()
    machine.qmp.event('RESUME')
    reader.finish()
    assert machine.console.command('ping') == 'pong'


def test_stop_meanwhile_is_kept(stuck):
    machine, reader = stuck
    machine.qmp.command('stop')
    reader.go()
    machine.qmp.event('DUMP_COMPLETED')
    reader.finish()
    assert machine.qmp.command('query-status')['status'] == 'paused'
    machine.cont()
    assert machine.console.command('ping') == 'pong'


def test_quit_meanwhile(stuck):
    machine, reader = stuck
    assert machine.quit() == 0
    reader.go()
    reader.thread.join()


def test_reader_that_leaves(stuck, folder):
    machine, reader = stuck
    os.close(reader.source)
    done = machine.qmp.event('DUMP_COMPLETED')['data']
    assert done['result']['status'] == 'failed' and 'Broken pipe' in done['error']
    machine.qmp.event('RESUME')
    assert machine.qmp.command('query-dump')['status'] == 'failed'
    assert machine.console.command('ping') == 'pong'
    check_pages(dump(machine, folder / 'again'), folder, 7, 2 * MIB, 64 * MIB)


def test_disk_full(machines):
    machine = machines.boot(memory='160M')
    with pytest.raises(QmpError, match='No space left'):
        machine.qmp.command('dump-guest-memory', paging=False, protocol='file:/dev/full')
    assert machine.qmp.command('query-status')['running']
    assert machine.console.command('ping') == 'pong'


def test_failed_file_is_left_empty(machines, folder):
    machine = machines.boot(memory='160M')
    resource.prlimit(machine.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with pytest.raises(QmpError, match='File too large'):
        machine.qmp.command('dump-guest-memory', paging=False, protocol=f'file:{folder}/core')
    assert machine.qmp.command('query-dump')['status'] == 'failed'
    assert (folder / 'core').stat().st_size == 0
    assert machine.console.command('ping') == 'pong'


# Refusals


@pytest.mark.parametrize('arguments, said', [
    ({'paging': True}, 'paging'), ({'protocol': 'tcp:1.2.3.4'}, "file:PATH"), ({'protocol': 'fd:nothing'}, 'nothing'),
    ({'protocol': 'file:/nowhere/core'}, 'No such file'), ({'begin': 0}, 'together'), ({'length': 4096}, 'together'),
    ({'begin': 0, 'length': 0}, 'nothing to dump'), ({'begin': 1 << 60, 'length': 4096}, 'no RAM'),
    ({'begin': (1 << 64) - 1, 'length': (1 << 64) - 1}, 'no RAM'), ({'format': 'win-dmp'}, 'win-dmp'),
    ({'format': 'kdump-zlib', 'begin': 0, 'length': 4096}, "'elf'")])
def test_bad_arguments(machines, folder, arguments, said):
    machine = machines.boot(memory='160M')
    with pytest.raises(QmpError, match=said):
        machine.qmp.command('dump-guest-memory', {'paging': False, 'protocol': f'file:{folder}/core', **arguments})
    assert machine.qmp.command('query-dump')['status'] == 'none'
    assert machine.qmp.command('query-status')['running']
    assert not any(event['event'] == 'STOP' for event in machine.qmp.events)
    assert machine.console.command('ping') == 'pong'


def test_file_that_memory_is_mapped_from_is_refused(machines, saved, folder):
    path = saved.copy(folder / 'base')
    os.link(path, folder / 'link')
    machine = machines.restore(path, 'copy-on-write', **saved.options)
    for name in (path, folder / 'link'):
        with pytest.raises(QmpError, match='guest memory is mapped from it'):
            machine.qmp.command('dump-guest-memory', paging=False, protocol=f'file:{name}')
    assert path.stat().st_size == saved.path.stat().st_size
    assert machine.console.verify(saved.seed) == saved.pages


def test_incoming_guest_has_nothing_to_dump(machines, folder):
    machine = machines.start(memory='160M', incoming='defer')
    with pytest.raises(QmpError, match='incoming'):
        machine.qmp.command('dump-guest-memory', paging=False, protocol=f'file:{folder}/core')


def test_capability(machines):
    machine = machines.boot(memory='160M')
    assert machine.qmp.command('query-dump-guest-memory-capability') == {'formats': ['elf', 'kdump-zlib']}
