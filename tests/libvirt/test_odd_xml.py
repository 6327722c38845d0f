# Domains of unusual shape: each starts, is saved, restored and saved again, and its memory is what it was.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

SEED = 5

# What is beyond the plain domain; 64 MiB where nothing is said.
CASES = {
    'odd-size': {'memory': '65540K'},
    'vcpus-64': {'vcpus': 64},
    'memfd-shared': {'elements': '<memoryBacking><source type="memfd"/><access mode="shared"/></memoryBacking>'},
    'file-shared': {'elements': '<memoryBacking><source type="file"/><access mode="shared"/></memoryBacking>'},
    'iothreads': {'elements': '<iothreads>3</iothreads>'},
    'pinned': {'elements': '<cputune><vcpupin vcpu="0" cpuset="0"/><emulatorpin cpuset="1"/></cputune>'},
    'variable': {'elements': '<clock offset="variable" adjustment="-3600"/>'},
    'genid': {'elements': '<genid/>'},
    'no-cpu': {'cpu': ''},
    'serials': {'devices': '<serial type="null"><target port="1"/></serial><serial type="pty"><target port="2"/></serial>'
                           '<serial type="pty"><target port="3"/></serial>'},
    'channels': {'devices': ''.join(f'<channel type="unix"><target type="virtio" name="c{n}"/></channel>' for n in range(20))},
    'rngs': {'devices': '<rng model="virtio"><rate bytes="100" period="1000"/><backend model="random">/dev/urandom</backend></rng>' * 4
                        + '<rng model="virtio"><backend model="builtin"/></rng>'},
    'no-acpi': {'xml': ('<features><acpi/></features>', '')},
    'currentmem': {'xml': ('<vcpu>', '<currentMemory unit="M">48</currentMemory><vcpu>')},
}


@pytest.mark.parametrize('name', CASES)
def test_saved_twice(domain, workdir, name):
    options = {'memory': '64M', 'timeout': 30, **CASES[name]}
    change = options.pop('xml', None)
    if change:
        options['xml_changes'] = lambda xml: xml.replace(*change)
    machine = domain(f'odd-{name}', **options).boot()
    pages = machine.fill(SEED, 0, 'max')
    for _ in range(2):
        machine.save(workdir / f'odd-{name}')
        machine.restore(workdir / f'odd-{name}')
        assert machine.check(SEED, 0, 'max') == pages
    machine.destroy()
    (workdir / f'odd-{name}').unlink()


def test_numa_cells_are_refused(domain):
    """One clear message that names what to take out."""
    cells = '<cpu mode="host-passthrough"><numa><cell id="0" cpus="0" memory="65536" unit="KiB"/></numa></cpu>'
    machine = domain('odd-numa', memory='64M', cpu=cells).define()
    machine.lv.expect_complaint('no NUMA nodes in the guest')
    message = machine.virsh('start', check=False)
    assert 'no NUMA nodes in the guest; take the cells out' in message, message
