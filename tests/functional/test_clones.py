# Many clones of one file: each sees only its own writes.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import vm as vmlib

MIB = 1 << 20


def test_sixteen_clones_at_once(machines, saved):
    args = ['-global', 'migration.ram-restore-mode=copy-on-write']
    clones = [machines.track(vmlib.Vm(incoming=f'file:{saved.path}', args=args, start=False, **saved.options))
              for _ in range(16)]
    for clone in clones:
        clone.spawn()
    for clone in clones:
        clone.connect_all()
        vmlib.wait_restored(clone)
        clone.cont()
    for number, clone in enumerate(clones):
        clone.console.verify(saved.seed, 16 * MIB, 16 * MIB)
        clone.console.command(f'write {200 + number} {32 * MIB} {4 * MIB}')
    for number, clone in enumerate(clones):
        clone.console.verify(200 + number, 32 * MIB, 4 * MIB)
        clone.console.verify(saved.seed, 36 * MIB, 8 * MIB)
        private = clone.restored_blocks()['pc.ram']['private-pages']
        assert 1024 <= private < 1024 + 256


def test_write_of_one_clone_is_not_seen_by_another_nor_in_the_file(machines, saved):
    one, other = (machines.restore(saved.path, 'copy-on-write', **saved.options) for _ in range(2))
    one.console.fill(1234)
    assert other.console.verify(saved.seed) == saved.pages
    third = machines.restore(saved.path, 'copy-on-write', **saved.options)
    assert third.console.verify(saved.seed) == saved.pages
    assert one.console.verify(1234) == saved.pages


def test_clone_of_a_clone(machines, saved, folder):
    one = machines.restore(saved.path, **saved.options)
    one.console.command(f'write 70 {32 * MIB} {4 * MIB}')
    one.save_increment(folder / 'one')
    one.cont()
    two = machines.restore(folder / 'one', **saved.options)
    two.console.verify(70, 32 * MIB, 4 * MIB)
    two.console.command(f'write 71 {33 * MIB} {4 * MIB}')
    one.console.verify(70, 32 * MIB, 4 * MIB)
    two.console.verify(70, 32 * MIB, 1 * MIB)
    two.console.verify(71, 33 * MIB, 4 * MIB)
