# A full disk, and a disk whose writes, reads or fsync fail: the save fails, the guest goes on, no wrong file is left.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import os
import subprocess
import textwrap

import pytest
import vm as vmlib

# Fails the Nth call of one kind on files whose name contains "victim".
SHIM = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int left = -1;

static int fails(const char *call, int fd)
{
    char link[64], name[512];
    const char *wanted = getenv("SHIM_CALL"), *count = getenv("SHIM_COUNT");
    ssize_t n;

    if (!wanted || strcmp(wanted, call)) {
        return 0;
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, name, sizeof(name) - 1);
    name[n < 0 ? 0 : n] = 0;
    if (!strstr(name, "/victim/")) {
        return 0;
    }
    if (left == -1) {
        left = atoi(count);
    }
    return left > 0 ? (left--, 0) : (errno = EIO, 1);
}

#define REAL(name) static __typeof__(name) *real; if (!real) { real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); }

ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { REAL(pwrite64) return fails("pwrite", fd) ? -1 : real(fd, b, n, o); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { REAL(pwrite) return fails("pwrite", fd) ? -1 : real(fd, b, n, o); }
ssize_t pwritev64(int fd, const struct iovec *v, int c, off64_t o) { REAL(pwritev64) return fails("pwrite", fd) ? -1 : real(fd, v, c, o); }
ssize_t pwritev(int fd, const struct iovec *v, int c, off_t o) { REAL(pwritev) return fails("pwrite", fd) ? -1 : real(fd, v, c, o); }
ssize_t pread64(int fd, void *b, size_t n, off64_t o) { REAL(pread64) return fails("pread", fd) ? -1 : real(fd, b, n, o); }
ssize_t pread(int fd, void *b, size_t n, off_t o) { REAL(pread) return fails("pread", fd) ? -1 : real(fd, b, n, o); }
int fsync(int fd) { REAL(fsync) return fails("fsync", fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync) return fails("fsync", fd) ? -1 : real(fd); }
'''


def failed(info):
    assert info['status'] == 'failed', info
    return info['error-desc']


def save_expecting_failure(machine, path, **parameters):
    machine.qmp.command('stop')
    try:
        text = failed(machine.migrate(f'file:{path}', **parameters))
    except vmlib.QmpError as error:
        text = error.desc
    machine.cont()
    return text


@pytest.fixture(scope='module')
def shim(tmp_path_factory):
    folder = tmp_path_factory.mktemp('shim')
    (folder / 'shim.c').write_text(textwrap.dedent(SHIM))
    subprocess.run(['cc', '-shared', '-fPIC', '-O1', '-o', folder / 'shim.so', folder / 'shim.c', '-ldl'], check=True)
    return folder / 'shim.so'


def test_full_disk(machines, small_disk):
    machine = machines.filled(memory='160M')
    text = save_expecting_failure(machine, small_disk / 's')
    assert 'No space left' in text and str(small_disk / 's') in text
    assert os.listdir(small_disk) == ['lost+found'], 'nothing is left behind'
    assert machine.console.verify(7) == machine.pages


def test_full_disk_keeps_the_old_snapshot(machines, small_disk):
    machine = machines.boot(memory='160M')
    machine.console.fill(5, 16 << 20, 24 << 20)
    machine.save(small_disk / 's')
    old = (small_disk / 's').read_bytes()
    machine.cont()
    machine.console.fill(6)
    save_expecting_failure(machine, small_disk / 's')
    assert (small_disk / 's').read_bytes() == old
    machine.console.verify(6)
    again = machines.restore(small_disk / 's', memory='160M')
    again.console.verify(5, 16 << 20, 24 << 20)


def test_full_disk_in_place(machines, small_disk):
    """An fd given to us: what is left in it is no snapshot."""
    machine = machines.filled(memory='160M')
    fd = os.open(small_disk / 's', os.O_RDWR | os.O_CREAT, 0o600)
    machine.qmp.command('getfd', fdname='out', fds=[fd])
    os.close(fd)
    machine.qmp.command('stop')
    assert 'No space left' in failed(machine.migrate('fd:out'))
    assert subprocess.run([vmlib.snap_path(), 'check', small_disk / 's'], capture_output=True).returncode != 0
    machine.cont()
    assert machine.console.verify(7) == machine.pages


def test_full_disk_after_a_while_increment(machines, saved, small_disk, folder):
    clone = machines.restore(saved.path, **saved.options)
    clone.console.fill(8)
    assert 'No space left' in save_expecting_failure(clone, small_disk / 'i', ram_save_mode='incremental')
    clone.qmp.command('stop')
    info = clone.save_increment(folder / 'i')
    assert info['ram']['data-pages'] >= saved.pages, 'what the failed save had taken is not forgotten'
    again = machines.restore(folder / 'i', **saved.options)
    assert again.console.verify(8) == saved.pages


@pytest.mark.parametrize('mode', ['full', 'incremental'])
@pytest.mark.parametrize('call, count', [('pwrite', 0), ('pwrite', 1), ('pwrite', 3), ('fsync', 0)])
def test_write_error(machines, saved, folder, shim, mode, call, count):
    (folder / 'victim').mkdir()
    clone = machines.restore(saved.path, env={'LD_PRELOAD': str(shim), 'SHIM_CALL': call, 'SHIM_COUNT': str(count)},
                             **saved.options)
    clone.console.command(f'write 9 {32 << 20} {64 << 20}')
    text = save_expecting_failure(clone, folder / 'victim/s', ram_save_mode=mode)
    assert 'Input/output error' in text, text
    assert os.listdir(folder / 'victim') == []
    clone.console.verify(9, 32 << 20, 64 << 20)
    clone.console.verify(saved.seed, 96 << 20)
    info = clone.save(folder / 'good', mode=mode)
    assert info['status'] == 'completed'
    again = machines.restore(folder / 'good', **saved.options)
    again.console.verify(9, 32 << 20, 64 << 20)


@pytest.mark.parametrize('count', [0, 1, 5])
def test_read_error_while_restoring(machines, saved, folder, shim, count):
    (folder / 'victim').mkdir()
    path = saved.copy(folder / 'victim/s')
    with pytest.raises(vmlib.VmFailed) as failure:
        machines.restore(path, 'copy', env={'LD_PRELOAD': str(shim), 'SHIM_CALL': 'pread', 'SHIM_COUNT': str(count)},
                         **saved.options)
    assert failure.value.status == 1
    assert 'Input/output error' in failure.value.stderr
