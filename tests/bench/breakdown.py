# Where the time of one copy-on-write restore goes, by the log item `startup` of the VMM.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import json
import re
import statistics

from common import program, run, spread
from restore import full_2g
from snapshots import restore_command, with_mode

ROUNDS = 25
LINE = re.compile(r'startup: (\d+) us: (.*)')


def _one_run(context, command):
    """[(step, milliseconds)] of one restore."""
    log = context.work / 'startup.log'
    output = run(program('launch'), '-r', '--', *command, '-d', 'startup', '-D', log).split()
    start, took = int(output[3]), int(output[2])
    steps, last = [], start
    for stamp, text in LINE.findall(log.read_text()):
        at = int(stamp)
        if (entered := re.match(r'main was entered (\d+) us ago', text)):
            steps.append(('exec and dynamic linking', (at - int(entered[1]) - last) / 1000))
            last = at - int(entered[1])
            continue
        steps.append((re.sub(r'us=\d+', '', text).strip(' :'), (at - last) / 1000))
        last = at
    steps.append(('first run to the tick', (start + took - last) / 1000))
    log.unlink()
    for path in context.work.path.glob('launch-*.qmp'):
        path.unlink()
    return steps, took / 1000


def restore(context, as_json):
    snapshot = full_2g(context)
    command = restore_command(context.work, snapshot, 2048, *with_mode('copy-on-write'))
    samples, totals = {}, []
    for number in range(ROUNDS + 1):
        steps, total = _one_run(context, command)
        if number > 0:
            totals.append(total)
            for step, took in steps:
                samples.setdefault(step, []).append(took)
    samples['exec to tick'] = totals
    for step, values in samples.items():
        if as_json:
            print(json.dumps({'name': f'breakdown: {step}', 'ratio': round(statistics.median(values), 4), 'unit': 'ms',
                              'parts': spread(values), 'floor': None, 'note': ''}))
        else:
            print(f'{step:45} {statistics.median(values):8.3f} ms   {min(values):.3f} to {max(values):.3f}')
    return 0
