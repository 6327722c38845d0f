# What the demonstrations print, and how they measure a process.
#
# SPDX-License-Identifier: GPL-2.0-or-later
MIB = 1 << 20


class Report:
    def __init__(self):
        self.rows = []

    def say(self, text):
        print(f'  {text}', flush=True)

    def row(self, what, seconds=None, written=None, memory=None):
        self.rows.append((what, '' if seconds is None else f'{seconds * 1000:.1f} ms',
                          '' if written is None else f'{written / MIB:.1f} MiB',
                          '' if memory is None else f'{memory / MIB:.1f} MiB'))

    def print_table(self):
        heads = ('', 'time', 'written to file', 'own memory')
        widths = [max(len(row[i]) for row in [heads, *self.rows]) for i in range(4)]
        print()
        for row in [heads, *self.rows]:
            print('  ' + row[0].ljust(widths[0]) + ''.join('   ' + cell.rjust(width) for cell, width in zip(row[1:], widths[1:])))


def own_memory(pid):
    """Bytes of anonymous memory and page tables that exist only for this process."""
    with open(f'/proc/{pid}/smaps_rollup') as file:
        fields = dict(line.split()[:2] for line in file if line[0].isalpha())
    with open(f'/proc/{pid}/status') as file:
        tables = next(int(line.split()[1]) for line in file if line.startswith('VmPTE:'))
    return (int(fields['Anonymous:']) + tables) * 1024
