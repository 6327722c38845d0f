# A template and domains that are clones of it, as docs/libvirt.rst tells administrators to make them.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import contextlib
import os
import pwd
import time

INCREMENTAL = ['-global', 'migration.ram-save-mode=incremental']


def libvirt_folder(workdir, name):
    """A folder that belongs to the user of the emulators."""
    folder = workdir / name
    folder.mkdir()
    user = pwd.getpwnam('libvirt-qemu')
    os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def wait_migrated(domain, timeout=60):
    deadline = time.monotonic() + timeout
    while (info := domain.qmp('query-migrate')).get('status') not in ('completed', 'failed'):
        assert time.monotonic() < deadline, info
        time.sleep(0.01)
    assert info['status'] == 'completed', info
    return info


def expect_early_end(lv):
    """The emulator is about to end with an error, perhaps in the middle of a command of libvirt's."""
    lv.expect_complaint('Unable to read from monitor: Connection reset by peer')
    lv.expect_complaint('Unable to write to monitor: Broken pipe')
    lv.expect_complaint('unexpectedly closed the monitor')


class Template:
    """The memory of a guest that was filled from `seed`, in a file that clones are started from."""

    def __init__(self, domains, folder, memory='160M', seed=7):
        self.domains, self.folder, self.memory, self.seed = domains, folder, memory, seed
        self.path = folder / 'template'
        source = domains.boot('template', memory=memory)
        self.pages = source.fill(seed)
        source.virsh('suspend')
        source.qmp('migrate', uri=f'file:{self.path}')
        wait_migrated(source)
        source.destroy()
        source.destroy_undefine()

    def clone(self, name, extra_args=INCREMENTAL, path=None, **options):
        """A Domain that is not defined yet, with a UUID and name of its own."""
        return self.domains(name, memory=self.memory, extra_args=['-incoming', f'file:{path or self.path}', *extra_args],
                            **options)

    @contextlib.contextmanager
    def away(self):
        """Under another name meanwhile."""
        elsewhere = self.folder / 'elsewhere'
        self.path.rename(elsewhere)
        try:
            yield elsewhere
        finally:
            elsewhere.rename(self.path)
