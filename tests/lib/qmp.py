# A QMP client over a unix socket, for tests and benchmarks. Standard library only.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import array
import json
import os
import socket
import time


class QmpError(Exception):
    """An error reply; error_class and desc are the reply's."""

    def __init__(self, command, error):
        super().__init__(f'{command}: {error.get("class")}: {error.get("desc")}')
        self.error_class = error.get('class')
        self.desc = error.get('desc', '')


class QmpClosed(Exception):
    """The other side closed the connection."""


class Qmp:
    """One connection. Events that arrive are kept in the list `events` until they are taken."""

    def __init__(self, path, timeout=30, alive=lambda: True, sock=None):
        """Connect to the socket at path, waiting for it to appear while alive() is true; or use sock, already connected."""
        self.sock = sock if sock is not None else self._connect(path, timeout, alive)
        self.buffer = b''
        self.events = []
        self.timeout = timeout
        self.greeting = self._read(time.monotonic() + timeout)
        self.command('qmp_capabilities')

    @staticmethod
    def _connect(path, timeout, alive):
        end = time.monotonic() + timeout
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(os.fspath(path))
                return sock
            except OSError:
                sock.close()
                if time.monotonic() > end or not alive():
                    raise
                time.sleep(0.002)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def _read(self, deadline):
        """The next message; None when the deadline passes."""
        while b'\n' not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(65536)
            except socket.timeout:
                return None
            except ConnectionResetError:
                data = b''
            if not data:
                raise QmpClosed()
            self.buffer += data
        line, self.buffer = self.buffer.split(b'\n', 1)
        return json.loads(line)

    def send_raw(self, data, fds=()):
        """Send bytes as they are, with descriptors if there are any."""
        if not fds:
            self.sock.settimeout(self.timeout)
            self.sock.sendall(data)
            return
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))
        sent = self.sock.sendmsg([data], [rights])
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def reply(self, timeout=None):
        """The next message that is no event, as it came; None when there is none in time."""
        deadline = time.monotonic() + (timeout if timeout is not None else self.timeout)
        while True:
            message = self._read(deadline)
            if message is None or 'event' not in message:
                return message
            self.events.append(message)

    def command(self, name, arguments=None, fds=(), timeout=None, **kwargs):
        """Run a command and return its result; arguments as a dict, or by name with '_' for '-'."""
        args = dict(arguments or {})
        args.update({key.replace('_', '-'): value for key, value in kwargs.items()})
        message = {'execute': name}
        if args:
            message['arguments'] = args
        self.send_raw(json.dumps(message).encode() + b'\n', fds)
        reply = self.reply(timeout)
        if reply is None:
            raise TimeoutError(f'no reply to {name}')
        if 'error' in reply:
            raise QmpError(name, reply['error'])
        return reply['return']

    def event(self, name, timeout=None, **data):
        """Take the first event of that name whose data has these members; waits for it."""
        deadline = time.monotonic() + (timeout if timeout is not None else self.timeout)
        seen = 0
        while True:
            for i in range(seen, len(self.events)):
                event = self.events[i]
                if event['event'] == name and data.items() <= event.get('data', {}).items():
                    return self.events.pop(i)
            seen = len(self.events)
            message = self._read(deadline)
            if message is None:
                raise TimeoutError(f'no event {name} {data}')
            if 'event' in message:
                self.events.append(message)

    def wait_migration(self, timeout=None, poll=0.02):
        """Wait for the end of a save or restore; returns the last query-migrate."""
        deadline = time.monotonic() + (timeout if timeout is not None else self.timeout)
        while True:
            info = self.command('query-migrate')
            if info.get('status') in ('completed', 'failed', 'cancelled'):
                return info
            if time.monotonic() > deadline:
                raise TimeoutError(f'migration does not end: {info}')
            time.sleep(poll)
