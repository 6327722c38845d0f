# Domains that are clones of one template: each has a name, a UUID and memory of its own, and they share the file's page cache.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

import pytest
from daemon import VirshError
from template import Template, expect_early_end, libvirt_folder

MIB = 1 << 20
CLONES = 4


@pytest.fixture(scope='module')
def template(module_domain, workdir):
    return Template(module_domain, libvirt_folder(workdir, 'clones'))


@pytest.fixture(scope='module')
def clones(template):
    made = [template.clone(f'clone{number}').define().start() for number in range(CLONES)]
    for number, clone in enumerate(made):
        clone.console.command(f'write {200 + number} {32 * MIB} {4 * MIB}')
    return made


def test_all_run_at_once(clones):
    assert [clone.state() for clone in clones] == ['running'] * CLONES


def test_each_has_its_own_memory(clones, template):
    for number, clone in enumerate(clones):
        clone.check(200 + number, 32 * MIB, 4 * MIB)
        clone.check(template.seed, 36 * MIB)


def test_each_has_its_own_uuid_and_name(clones):
    for clone in clones:
        assert clone.virsh('domuuid').strip() == clone.uuid
        assert clone.qmp('query-uuid')['UUID'] == clone.uuid
        assert clone.qmp('query-name')['name'] == clone.name
    assert len({clone.uuid for clone in clones}) == CLONES


def test_memory_is_the_template_copy_on_write(clones, template):
    for clone in clones:
        info = clone.qmp('query-ram-restore')
        block = next(b for b in info['blocks'] if b['block'] == 'pc.ram')
        assert block['mode'] == 'copy-on-write' and block['file'] == str(template.path), block
        assert info['guard'] == 'lease', info
        assert 1024 <= block['private-pages'] < 1024 + 512, block


def mapping(pid, path):
    """Sums of /proc/PID/smaps over the mappings of a file, in KiB."""
    sums, inside = {}, False
    for line in open(f'/proc/{pid}/smaps'):
        if re.match(r'[0-9a-f]+-[0-9a-f]+ ', line):
            inside = line.rstrip().endswith(str(path))
        elif inside and line.endswith(' kB\n'):
            name, value, _ = line.split()
            sums[name[:-1]] = sums.get(name[:-1], 0) + int(value)
    return sums


def test_they_share_one_copy_of_the_page_cache(clones, template):
    for clone in clones:
        clone.check(template.seed, 36 * MIB, 16 * MIB)
    for clone in clones:
        sums = mapping(clone.pid(), template.path)
        assert sums['Shared_Clean'] >= 16 * 1024 and sums['Private_Clean'] < 1024, sums
        # Each of the clones pays for its part of what all have read.
        assert sums['Pss'] < sums['Private_Dirty'] + sums['Shared_Clean'] * 2 // CLONES, sums


def test_clone_starts_from_the_template_again(clones, template):
    clone = clones[0]
    clone.destroy()
    clone.start()
    clone.check(template.seed)
    clone.console.command(f'write 200 {32 * MIB} {4 * MIB}')


def test_started_paused_and_resumed(template, domain):
    clone = template.clone('paused').define().start(paused=True)
    assert clone.state() == 'paused'
    clone.virsh('resume')
    clone.check(template.seed)
    clone.destroy()


def test_prestarted_clone(template, module_domain):
    """The process waits; migrate-incoming and resume are all that is left to do."""
    clone = module_domain('prestarted', memory=template.memory, extra_args=['-incoming', 'defer'])
    clone.define().start(paused=True)
    clone.qmp('migrate-incoming', uri=f'file:{template.path}')
    clone.virsh('resume')
    clone.check(template.seed)
    block = next(b for b in clone.qmp('query-ram-restore')['blocks'] if b['block'] == 'pc.ram')
    assert block['mode'] == 'copy-on-write'
    clone.destroy()


def test_missing_template_is_one_error(template, lv):
    expect_early_end(lv)
    clone = template.clone('orphan', path='/nowhere/template').define()
    with pytest.raises(VirshError) as failure:
        clone.start()
    text = str(failure.value)
    assert text.count('/nowhere/template') == 1 and 'No such file' in text, text
    assert clone.state() == 'shut off'


def test_template_of_another_size_is_one_error(template, module_domain, lv):
    expect_early_end(lv)
    clone = module_domain('large', memory='192M', extra_args=['-incoming', f'file:{template.path}']).define()
    with pytest.raises(VirshError, match='same -m'):
        clone.start()
