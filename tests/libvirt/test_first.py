# The first thing that has to work: a domain is defined, started, saved, restored and destroyed, and keeps its memory.
#
# SPDX-License-Identifier: GPL-2.0-or-later


def test_define_start_save_restore_destroy(domain, workdir):
    machine = domain('first')
    machine.define()
    assert machine.state() == 'shut off'
    machine.start()
    assert machine.state() == 'running'
    machine.fill(7)
    machine.save(workdir / 'first.save')
    assert machine.state() == 'shut off'
    machine.restore(workdir / 'first.save')
    assert machine.state() == 'running'
    machine.check(7)
    machine.destroy()
    assert machine.state() == 'shut off'
