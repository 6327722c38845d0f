# virsh dump: the memory of a domain as an ELF core and in kdump's format, and a dump that migrates to a pipe.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re
import shutil
import subprocess

import pytest

import vm as vmlib
from core_file import CoreFile
from daemon import VirshError
from kdump_file import KdumpFile

MIB = 1 << 20


@pytest.fixture(scope='module')
def machine(module_domain):
    made = module_domain.boot('dump', memory='256M', vcpus=2)
    made.fill(7, 32 * MIB, 16 * MIB)
    return made


def check_pages(core, workdir, seed, start, length):
    image = core.write_image(workdir / 'dump.image')
    done = subprocess.run([vmlib.build_dir() / 'tests/guest/page-oracle', 'verify', str(seed), image, str(start), str(start),
                           str(length)], capture_output=True, text=True)
    image.unlink()
    assert done.returncode == 0, done.stdout + done.stderr


def test_dump_memory_only(machine, workdir):
    path = workdir / 'dump.elf'
    text = machine.virsh('dump', path, '--memory-only')
    assert re.fullmatch(fr"\n?Domain '{machine.name}' dumped to {path}\n*", text), text
    assert machine.state() == 'running'
    core = CoreFile(path)
    assert core.length() >= 256 * MIB and len(core.registers()) == 2
    assert path.stat().st_size < 64 * MIB
    check_pages(core, workdir, 7, 32 * MIB, 16 * MIB)
    machine.check(7, 32 * MIB, 16 * MIB)


def test_dump_memory_only_verbose_and_live(machine, workdir):
    process = machine.lv.popen_virsh('dump', machine.name, str(workdir / 'dump.live'), '--memory-only', '--live', '--verbose')
    _, err = process.communicate(timeout=60)
    shown = [float(n) for n in re.findall(r'Dump: \[ *([\d.]+) ?%\]', err)]
    assert process.returncode == 0 and shown and shown[-1] == 100 and shown == sorted(shown), err
    assert machine.state() == 'running'
    check_pages(CoreFile(workdir / 'dump.live'), workdir, 7, 32 * MIB, 16 * MIB)


def test_dump_memory_only_bypassing_the_cache(machine, workdir):
    machine.virsh('dump', workdir / 'dump.direct', '--memory-only', '--bypass-cache')
    check_pages(CoreFile(workdir / 'dump.direct'), workdir, 7, 32 * MIB, 16 * MIB)


def test_dump_of_a_paused_domain(machine, workdir):
    machine.virsh('suspend')
    machine.virsh('dump', workdir / 'dump.paused', '--memory-only')
    assert machine.state() == 'paused'
    machine.virsh('resume')
    check_pages(CoreFile(workdir / 'dump.paused'), workdir, 7, 32 * MIB, 16 * MIB)


def test_dump_format_kdump_zlib(machine, workdir):
    machine.virsh('dump', workdir / 'dump.kdump', '--memory-only', '--format', 'kdump-zlib')
    kdump = KdumpFile(workdir / 'dump.kdump', workdir / 'dump.flat')
    assert kdump.cpus == 2 and machine.state() == 'running'
    machine.virsh('dump', workdir / 'dump.again', '--memory-only')
    pages, again = kdump.pages(), CoreFile(workdir / 'dump.again').pages()
    filled = range(32 * MIB >> 12, 48 * MIB >> 12)
    assert {n: pages[n] for n in filled} == {n: again[n] for n in filled}


def test_dump_format_that_there_is_not(machine, workdir):
    with pytest.raises(VirshError, match='snappy'):
        machine.virsh('dump', workdir / 'dump.snappy', '--memory-only', '--format', 'kdump-snappy')
    assert machine.state() == 'running'


def test_readelf_of_a_dump(machine, workdir):
    text = subprocess.run(['readelf', '-h', '-l', '-n', workdir / 'dump.elf'], check=True, capture_output=True, text=True)
    assert 'CORE (Core file)' in text.stdout and text.stdout.count('NT_PRSTATUS') == 2 and not text.stderr


@pytest.mark.skipif(not shutil.which('gdb'), reason='gdb is not installed')
def test_gdb_reads_registers_of_a_dump(machine, workdir):
    text = subprocess.run(['gdb', '-nx', '-batch', '-ex', 'info registers rip', '-ex', 'info threads', workdir / 'cowbird-system-x86_64',
                           workdir / 'dump.elf'], capture_output=True, text=True).stdout
    assert re.search(r'^rip\s+0x[0-9a-f]+', text, re.M), text


def test_dump_that_migrates(machine, workdir):
    """Without --memory-only libvirt writes what `migrate` sends, without a header of its own."""
    machine.virsh('dump', workdir / 'dump.whole', '--live')
    assert machine.state() == 'running'
    machine.check(7, 32 * MIB, 16 * MIB)
    with open(workdir / 'dump.whole', 'rb') as file:
        assert file.read(4) == b'QEVM'


def test_dump_crash_destroys_the_domain(domain, workdir):
    doomed = domain.boot('dump-crash')
    doomed.virsh('dump', workdir / 'dump.crash', '--memory-only', '--crash')
    assert doomed.state() == 'shut off'
    assert len(CoreFile(workdir / 'dump.crash').registers()) == 1


def test_dump_reset_starts_the_guest_anew(domain, workdir):
    again = domain.boot('dump-reset')
    again.fill(3, 32 * MIB, MIB)
    # libvirt 9.0 says this of itself when it resets after a dump.
    again.lv.expect_complaint('This thread seems to be the async job owner')
    again.virsh('dump', workdir / 'dump.reset', '--memory-only', '--reset')
    assert again.state() == 'running'
    again.expect('ready')
    check_pages(CoreFile(workdir / 'dump.reset'), workdir, 3, 32 * MIB, MIB)
