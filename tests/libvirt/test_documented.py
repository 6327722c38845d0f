# The domain that docs/libvirt.rst shows: it runs as it stands there, but for paths and names of this test.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / 'docs/libvirt.rst'


def documented(emulator, kernel):
    """The first literal block of the page with a whole domain."""
    text = textwrap.dedent(re.search(r'^    <domain .*?^    </domain>\n', PAGE.read_text(), re.MULTILINE | re.DOTALL)[0])
    text = re.sub(r'<emulator>.*</emulator>', f'<emulator>{emulator}</emulator>', text)
    text = re.sub(r'<kernel>.*</kernel>', f'<kernel>{kernel}</kernel>', text)
    return re.sub(r' *<(initrd|cmdline)>.*</\1>\n', '', text)


def renamed(shown, own):
    """The shown domain with name and UUID of the test's."""
    identity = re.search(r' *<name>.*</uuid>\n', own, re.DOTALL)[0]
    return re.sub(r' *<name>.*</name>\n', lambda _: identity, shown)


def test_domain_of_the_page(domain, emulator, kernel):
    machine = domain.boot('PROBE2-page', xml_changes=lambda own: renamed(documented(emulator, kernel), own))
    assert len(machine.qmp('query-cpus-fast')) == 2
    assert {entry['type'] for entry in machine.qmp('qom-list', path='/machine/peripheral')} >= {
        'child<virtio-balloon-pci>', 'child<virtio-rng-pci>', 'child<virtio-serial-pci>', 'child<virtserialport>'}
    assert machine.state() == 'running'
