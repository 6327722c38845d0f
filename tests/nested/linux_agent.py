# How qemu-guest-agent is started in the Linux guest.
#
# SPDX-License-Identifier: GPL-2.0-or-later
from pathlib import Path

AGENT = Path('/usr/sbin/qemu-ga')
PORT = 'org.qemu.guest_agent.0'
# The program by which the agent switches off; a guest made of busybox has none of its own.
SHUTDOWN = r"""mkdir -p /sbin; printf '#!/bin/sh\nexec /bin/poweroff -f\n' >/sbin/shutdown; busybox chmod 755 /sbin/shutdown"""
START = f'qemu-ga -m virtio-serial -p /dev/virtio-ports/{PORT} -t /tmp -f /tmp/agent.pid -l /tmp/agent.log -d'
