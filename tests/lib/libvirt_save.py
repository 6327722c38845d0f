# What libvirt does around saving and restoring a guest, over plain QMP: the file's header, the descriptors it hands over, the
# commands in their order. Standard library only.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import json
import os
import signal
import struct
import threading

import vm as vmlib

UNLIMITED = 9223372036853727232
MAGIC = b'LibvirtQemudSave'
# Those of 11.3; 9.0 knows none of the last three. Only what query-migrate-capabilities lists is ever named.
CAPABILITIES = ['xbzrle', 'auto-converge', 'rdma-pin-all', 'events', 'postcopy-ram', 'compress', 'pause-before-switchover',
                'late-block-activate', 'multifd', 'dirty-bitmaps', 'return-path', 'zero-copy-send', 'postcopy-preempt',
                'switchover-ack', 'mapped-ram']
ENDS = ('completed', 'failed', 'cancelled')


def header(xml_length=1429):
    """Header and XML of a save file; with this length the stream begins at a place that is aligned to nothing."""
    data = b'<domain/>' + b'\0' * (xml_length + 65536 - 9)
    return MAGIC + struct.pack('<5I', 2, len(data), 1, 0, 0) + bytes(56) + data


def statuses(qmp):
    return [e['data']['status'] for e in qmp.events if e['event'] == 'MIGRATION']


class Helper(threading.Thread):
    """libvirt_iohelper: from a pipe into a file until the writer closes it, or from a file into a pipe."""

    def __init__(self, source, target, limit=None, delay=None):
        super().__init__(daemon=True)
        self.source, self.target, self.limit, self.delay, self.copied = source, target, limit, delay, 0
        self.start()

    def run(self):
        with contextlib.suppress(BrokenPipeError):
            while self.limit is None or self.copied < self.limit:
                data = os.read(self.source, 1 << 20)
                if not data:
                    break
                view = memoryview(data)
                while view:
                    view = view[os.write(self.target, view):]
                self.copied += len(data)
                if self.delay:
                    self.delay.wait(0.02)
        os.close(self.source)
        os.close(self.target)


class Save:
    """One `virsh save` (format 'raw') or `virsh save --image-format sparse`; begin() and end(), or run()."""

    def __init__(self, machine, path, fmt='raw', live=False, bypass_cache=False, channels=1, fdset=3, xml_length=1429,
                 limit=None, delay=None):
        self.machine, self.qmp, self.path, self.fmt, self.live = machine, machine.qmp, str(path), fmt, live
        self.bypass_cache, self.channels, self.fdset, self.xml_length = bypass_cache, channels, fdset, xml_length
        self.limit, self.delay, self.helper = limit, delay, None

    def set_capabilities(self, *on):
        listed = {c['capability'] for c in self.qmp.command('query-migrate-capabilities')}
        states = [{'capability': name, 'state': name in on} for name in CAPABILITIES if name in listed and name != 'events']
        if states:
            self.qmp.command('migrate-set-capabilities', capabilities=states)

    def begin(self):
        # Sent at the start of every domain.
        self.qmp.command('migrate-set-capabilities', capabilities=[{'capability': 'events', 'state': True}])
        self.qmp.command('query-migrate')
        self.was_running = self.qmp.command('query-status')['running']
        if self.was_running and not self.live:
            self.qmp.command('stop')
            self.qmp.event('STOP')
        self.old = self.qmp.command('query-migrate-parameters')
        self.qmp.events.clear()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(file, header(self.xml_length))
        (self.begin_raw if self.fmt == 'raw' else self.begin_sparse)(file)
        assert statuses(self.qmp)[:1] == ['setup'], 'the event comes before the reply'

    def begin_raw(self, file):
        read, write = os.pipe()
        self.helper = Helper(read, file, self.limit, self.delay)
        self.set_capabilities()
        self.qmp.command('migrate-set-parameters', {'max-bandwidth': UNLIMITED})
        self.qmp.command('getfd', fdname='migrate', fds=[write])
        os.close(write)
        self.qmp.command('migrate', detach=True, resume=False, uri='fd:migrate')

    def begin_sparse(self, file):
        offset = os.lseek(file, 0, os.SEEK_CUR)
        self.set_capabilities('multifd', 'mapped-ram')
        parameters = {'max-bandwidth': UNLIMITED, 'multifd-channels': self.channels}
        self.qmp.command('migrate-set-parameters', {**parameters, **({'direct-io': True} if self.bypass_cache else {})})
        assert self.fdset not in [s['fdset-id'] for s in self.qmp.command('query-fdsets')]
        self.qmp.command('add-fd', opaque='libvirt-outgoing-migrate-fd', fdset_id=self.fdset, fds=[file])
        os.close(file)
        if self.bypass_cache:
            direct = os.open(self.path, os.O_WRONLY | os.O_DIRECT)
            self.qmp.command('add-fd', opaque='libvirt-outgoing-migrate-directio-fd', fdset_id=self.fdset, fds=[direct])
            os.close(direct)
        self.qmp.command('migrate', resume=False, uri=f'file:/dev/fdset/{self.fdset},offset={offset:#x}')

    def end(self, timeout=None):
        """Wait for the event that ends it; returns query-migrate."""
        seen = []
        while not seen or seen[-1] not in ENDS:
            seen.append(self.qmp.event('MIGRATION', timeout)['data']['status'])
        self.seen = seen
        if self.helper:
            # EOF has to come by itself.
            self.helper.join(30)
            assert not self.helper.is_alive(), 'the pipe was not closed'
        info = self.qmp.command('query-migrate')
        self.qmp.command('query-fdsets')
        self.set_capabilities()
        self.qmp.command('migrate-set-parameters', {k: self.old[k] for k in ('max-bandwidth', 'multifd-channels', 'direct-io')})
        return info

    def run(self):
        self.begin()
        info = self.end()
        assert info['status'] == 'completed', info
        return info

    def terminate(self):
        self.machine.process.send_signal(signal.SIGTERM)
        self.machine.wait()


class Restore:
    """`virsh restore`: start with -incoming defer, hand the descriptor over, load, and, if wanted, let the guest run."""

    def __init__(self, make, path, fmt='raw', bypass_cache=False, channels=1, version=11, run=True, **options):
        self.path, self.version = str(path), version
        fds, args, more_fds = [], list(options.pop('args', ())), options.pop('more_fds', ())
        offset = len_of_header(path)
        parameters = None
        if fmt == 'raw':
            fd = os.open(self.path, os.O_RDONLY)
            os.lseek(fd, offset, os.SEEK_SET)
            if bypass_cache:
                read, write = os.pipe()
                Helper(fd, write)
                fd = read
            fds, uri = [fd], f'fd:{fd}'
        else:
            fds = [os.open(self.path, os.O_RDONLY)]
            args += ['-add-fd', f'set=0,fd={fds[0]},opaque=libvirt-incoming-migrate-buffered-fd']
            parameters = {'multifd-channels': channels}
            if bypass_cache:
                fds.append(os.open(self.path, os.O_RDONLY | os.O_DIRECT))
                args += ['-add-fd', f'set=0,fd={fds[1]},opaque=libvirt-incoming-migratedirect-io-fd']
                parameters['direct-io'] = True
            uri = f'file:/dev/fdset/0,offset={offset:#x}'
        self.machine = make(incoming='defer', args=['-S', *args], pass_fds=[*fds, *more_fds], **options)
        for fd in fds:
            os.close(fd)
        self.qmp = self.machine.qmp
        self.load(uri, parameters)
        if run:
            self.qmp.command('cont')
            self.qmp.event('RESUME')

    def load(self, uri, parameters):
        self.qmp.command('migrate-set-capabilities', capabilities=[{'capability': 'events', 'state': True}])
        for name in ('query-chardev', 'query-cpus-fast'):
            self.qmp.command(name)
        self.qmp.command('qom-list', path='/machine/peripheral')
        if parameters is not None:
            states = [{'capability': name, 'state': True} for name in ('multifd', 'mapped-ram')]
            self.qmp.command('migrate-set-capabilities', capabilities=states)
            self.qmp.command('migrate-set-parameters', parameters)
        self.qmp.events.clear()
        exit_on_error = {'exit-on-error': False} if self.version >= 11 else {}
        self.qmp.command('migrate-incoming', {'uri': uri, **exit_on_error})
        assert statuses(self.qmp)[:1] == ['setup'], 'the event comes before the reply'
        self.seen = []
        while not self.seen or self.seen[-1] not in ENDS:
            self.seen.append(self.qmp.event('MIGRATION')['data']['status'])
        self.info = self.qmp.command('query-migrate')
        assert self.seen == ['setup', 'active', 'completed'], self.info
        self.qmp.command('qom-list', path='/machine/peripheral')


def len_of_header(path):
    with open(path, 'rb') as file:
        head = file.read(92)
    assert head[:16] == MAGIC
    return 92 + struct.unpack_from('<5I', head, 16)[1]
