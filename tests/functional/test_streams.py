# Saving to and restoring from pipes and sockets, commands that come at the wrong time, readers that leave.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import fcntl
import os
import socket
import threading

import pytest
import vm as vmlib


def assert_restored(machines, incoming, seed, pages, memory='160M'):
    machine = machines.start(incoming=incoming, memory=memory)
    vmlib.wait_restored(machine)
    machine.cont()
    assert machine.console.verify(seed) == pages
    block = machine.restored_blocks()['pc.ram']
    assert block['mode'] == 'copy' and block['reason']
    return machine


def test_exec(machines, folder):
    machine = machines.filled(memory='160M')
    machine.qmp.command('stop')
    assert machine.migrate(f'exec:cat > {folder}/s', mapped_ram=False)['status'] == 'completed'
    machines.end(machine)
    assert_restored(machines, f'exec:cat {folder}/s', 7, machine.pages)


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize('kind', ['unix', 'tcp'])
def test_socket_between_two_processes(machines, folder, kind):
    source = machines.filled(memory='160M')
    address = f'unix:{folder}/socket' if kind == 'unix' else f'tcp:127.0.0.1:{free_port()}'
    target = machines.start(incoming='defer', memory='160M')
    target.set_capabilities(events=True)
    target.qmp.command('migrate-incoming', uri=address)
    info = source.migrate(address, mapped_ram=False)
    assert info['status'] == 'completed', info
    vmlib.wait_restored(target)
    assert target.qmp.command('query-status')['status'] == 'running'
    assert target.console.verify(7) == source.pages
    assert source.qmp.command('query-status')['status'] == 'postmigrate'


def test_pipe(machines):
    source = machines.filled(memory='160M')
    source.qmp.command('stop')
    read, write = os.pipe()
    source.qmp.command('getfd', fdname='out', fds=[write])
    os.close(write)
    target = machines.start(incoming=f'fd:{read}', memory='160M', pass_fds=[read])
    os.close(read)
    assert source.migrate('fd:out', mapped_ram=False)['status'] == 'completed'
    vmlib.wait_restored(target)
    target.cont()
    assert target.console.verify(7) == source.pages


class SplicingReader(threading.Thread):
    """Moves all that comes on into pipes of its own without looking at it, as a proxy with splice(2) does."""
    PIPE = 1 << 20

    def __init__(self, source):
        super().__init__(daemon=True)
        self.source, self.pipes = source, []
        self.start()

    def run(self):
        while True:
            read, write = os.pipe()
            self.pipes.append(read)
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, self.PIPE)
            fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)
            moved = 1
            while moved:
                try:
                    moved = os.splice(self.source, write, self.PIPE)
                except BlockingIOError:
                    break
            os.close(write)
            if not moved:
                return

    def store(self, path):
        with open(path, 'wb') as file:
            for fd in self.pipes:
                while data := os.read(fd, self.PIPE):
                    file.write(data)
                os.close(fd)


def test_reader_that_splices_on(machines, folder):
    """What the guest writes after the save is not in the stream, wherever its bytes still lie."""
    source = machines.filled(memory='128M')
    source.qmp.command('stop')
    read, write = os.pipe()
    source.qmp.command('getfd', fdname='out', fds=[write])
    os.close(write)
    reader = SplicingReader(read)
    assert source.migrate('fd:out', mapped_ram=False)['status'] == 'completed'
    reader.join()
    os.close(read)
    source.cont()
    assert source.console.fill(8) == source.pages
    reader.store(folder / 's')
    machines.end(source)
    assert_restored(machines, f'exec:cat {folder}/s', 7, source.pages, memory='128M')


def test_pipe_whose_reader_leaves(machines):
    machine = machines.filled(memory='160M')
    read, write = os.pipe()
    machine.qmp.command('getfd', fdname='out', fds=[write])
    os.close(write)
    machine.begin_migrate('fd:out', mapped_ram=False)
    os.read(read, 100000)
    os.close(read)
    info = machine.end_migrate()
    assert info['status'] == 'failed' and 'Broken pipe' in info['error-desc']
    assert machine.qmp.command('query-status')['running']
    assert machine.console.verify(7) == machine.pages


def test_stream_that_ends_early(machines, folder):
    machine = machines.filled(memory='160M')
    machine.qmp.command('stop')
    machine.migrate(f'exec:head -c 30000000 > {folder}/s', mapped_ram=False)
    with pytest.raises(vmlib.VmFailed) as failure:
        again = machines.start(incoming=f'exec:cat {folder}/s', memory='160M')
        vmlib.wait_restored(again)
    assert failure.value.status == 1


def test_migrate_while_one_runs(machines, folder):
    machine = machines.filled(memory='160M')
    machine.begin_migrate(f'file:{folder}/a', max_bandwidth=8 << 20)
    machine.qmp.event('MIGRATION', status='active')
    with pytest.raises(vmlib.QmpError):
        machine.qmp.command('migrate', uri=f'file:{folder}/b')
    for command in ('cont',):
        with pytest.raises(vmlib.QmpError):
            machine.qmp.command(command)
    machine.set_parameters(max_bandwidth=0)
    assert machine.end_migrate()['status'] == 'completed'
    assert os.listdir(folder) == ['a']


def test_cont_while_incoming(machines, saved):
    machine = machines.start(incoming='defer', **saved.options)
    with pytest.raises(vmlib.QmpError):
        machine.qmp.command('cont')
    machine.qmp.command('migrate-incoming', uri=f'file:{saved.path}')
    vmlib.wait_restored(machine)
    machine.cont()
    assert machine.console.command('ping') == 'pong'


def test_incoming_command_without_incoming(machines, saved):
    machine = machines.boot(memory='160M')
    with pytest.raises(vmlib.QmpError):
        machine.qmp.command('migrate-incoming', uri=f'file:{saved.path}')
    assert machine.console.command('ping') == 'pong'


@pytest.mark.parametrize('uri', ['file:/nonexistent/x', 'file:', 'fd:nothing', 'nonsense:x', 'unix:/nonexistent', 'tcp:127.0.0.1:1',
                                 'exec:exit 3', 'file:/dev/fdset/44'])
def test_migrate_to_nowhere(machines, uri):
    machine = machines.filled(memory='128M')
    try:
        info = machine.migrate(uri, mapped_ram=False)
        assert info['status'] == 'failed' and info['error-desc']
    except vmlib.QmpError as error:
        assert error.desc
    assert machine.qmp.command('query-status')['running']
    assert machine.console.verify(7) == machine.pages


def test_read_only_target(machines, folder):
    machine = machines.boot(memory='128M')
    path = folder / 's'
    path.write_bytes(b'')
    fd = os.open(path, os.O_RDONLY)
    machine.qmp.command('getfd', fdname='out', fds=[fd])
    os.close(fd)
    machine.set_capabilities(events=True, mapped_ram=True)
    try:
        machine.qmp.command('migrate', uri='fd:out')
        assert machine.end_migrate()['status'] == 'failed'
    except vmlib.QmpError:
        pass
    assert machine.console.command('ping') == 'pong'


@pytest.mark.parametrize('incoming', ['at-start', 'later'])
def test_socket_that_nobody_comes_to(machines, folder, incoming):
    """It is there when the command is answered, and goes with the process."""
    path = folder / 'socket'
    machine = machines.start(incoming=f'unix:{path}' if incoming == 'at-start' else 'defer', memory='128M')
    if incoming == 'later':
        machine.qmp.command('migrate-incoming', uri=f'unix:{path}')
    assert path.is_socket()
    assert machine.qmp.command('query-status')['status'] == 'inmigrate'
    assert machine.quit() == 0
    assert not path.exists()


def test_port_in_use(machines):
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        sock.listen()
        uri = f'tcp:127.0.0.1:{sock.getsockname()[1]}'
        with pytest.raises(vmlib.VmFailed, match='in use') as failure:
            vmlib.wait_restored(machines.start(incoming=uri, memory='128M'))
        assert failure.value.status == 1
        machine = machines.start(incoming='defer', memory='128M')
        with pytest.raises(vmlib.QmpError, match='in use'):
            machine.qmp.command('migrate-incoming', uri=uri)
        assert machine.qmp.command('query-status')['status'] == 'inmigrate'
