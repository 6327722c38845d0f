#!/usr/bin/python3
# Run the test suites and count: unit tests, tests of devices, both under sanitizers, a fuzzer, style, functional tests, Linux
# guests, libvirt.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import namedtuple
from pathlib import Path

from check_libvirt import run_shares

ROOT = Path(__file__).resolve().parents[1]
BUILD, ASAN_BUILD, FUZZ_BUILD = ROOT / 'build', ROOT / 'build-asan', ROOT / 'build-fuzz'
PYTEST = ['/usr/bin/python3', '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '--tb=short', '-rs']

# times: (seconds, name) of each test case that says so.
Result = namedtuple('Result', 'passed failed skipped notes times', defaults=[()])


def run(command, log, **options):
    """Run to the end with its output in the log; returns the exit status."""
    log.write(f'$ {" ".join(map(str, command))}\n')
    log.flush()
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, **options).returncode


def read_junit(path, status):
    """Counts and the names of what failed or was skipped; a run without a report is one failure."""
    if not path.exists():
        return Result(0, 1, 0, [f'no report, exit status {status}'])
    passed, failed, skipped, notes, times = 0, 0, 0, [], []
    for case in ElementTree.parse(path).iter('testcase'):
        name = f'{case.get("classname")}: {case.get("name")}'
        times.append((float(case.get('time') or 0), name))
        if case.find('failure') is not None or case.find('error') is not None:
            failed += 1
            notes.append(f'failed: {name}')
        elif (reason := case.find('skipped')) is not None:
            skipped += 1
            notes.append(f'skipped: {name}: {reason.get("message") or ""}')
        else:
            passed += 1
    if status != 0 and failed == 0:
        failed += 1
        notes.append(f'exit status {status}')
    return Result(passed, failed, skipped, notes, times)


def added(results):
    """One result of several."""
    return Result(*(sum(getattr(r, field) for r in results) for field in ('passed', 'failed', 'skipped')),
                  [note for r in results for note in r.notes], [time for r in results for time in r.times])


def meson_tests(build, log, *suites, **options):
    report = build / 'meson-logs/testlog.junit.xml'
    report.unlink(missing_ok=True)
    chosen = [word for suite in suites for word in ('--suite', suite)]
    status = run(['/usr/bin/meson', 'test', '-C', build, *chosen, '--print-errorlogs', '--no-rebuild'], log, **options)
    return read_junit(report, status)


def suite_unit(arguments, log):
    return meson_tests(BUILD, log, 'unit')


def suite_qtest(arguments, log):
    return meson_tests(BUILD, log, 'qtest')


def suite_sanitizers(arguments, log):
    status = run([ROOT / 'scripts/setup', '--asan'], log)
    if status != 0:
        return Result(0, 1, 0, ['the build with sanitizers failed'])
    environment = {**os.environ, 'ASAN_OPTIONS': 'detect_leaks=1:abort_on_error=0',
                   'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'}
    return meson_tests(ASAN_BUILD, log, 'unit', 'qtest', env=environment)


def fuzz_notes(output):
    """The seed and the number of executions, as libFuzzer wrote them."""
    found = [re.search(r'INFO: Seed: (\d+)', output), re.search(r'Done (\d+) runs', output)]
    return [f'fuzz-virtio: seed {found[0][1]}, {found[1][1]} executions'] if all(found) else []


def suite_fuzz(arguments, log):
    """What was found once is run again; then new inputs, from the seeds on, for a while."""
    probe = ['clang-14', '-fsanitize=fuzzer,address,undefined', '-shared', '-fPIC', '-x', 'c', '/dev/null', '-o', '/dev/null']
    if not shutil.which('clang-14') or run(probe, log) != 0:
        return Result(0, 0, 1, ['skipped: clang-14 or its libFuzzer is missing: scripts/setup --tests installs both'])
    if run([ROOT / 'scripts/setup', '--fuzz'], log) != 0:
        return Result(0, 1, 0, ['the build of the fuzzers failed'])
    fuzzer, folder = FUZZ_BUILD / 'tests/fuzz/fuzz-virtio', ROOT / 'tests/fuzz'
    environment = {**os.environ, 'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'}
    seconds = 600 if arguments.long else 30
    corpus = FUZZ_BUILD / 'corpus'
    corpus.mkdir(exist_ok=True)
    options = ['-timeout=10', f'-artifact_prefix={FUZZ_BUILD}/']
    runs = {
        'fuzz-virtio: findings and seeds': [*sorted(folder.glob('findings/*')), *sorted(folder.glob('seeds/*'))],
        f'fuzz-virtio: {seconds} s': [f'-max_total_time={seconds}', '-max_len=2000', corpus, folder / 'seeds'],
    }
    failed = [name for name, words in runs.items() if run([fuzzer, *options, *words], log, env=environment) != 0]
    notes = fuzz_notes(Path(log.name).read_text(errors='replace').rpartition('$ ')[2])
    return Result(len(runs) - len(failed), len(failed), 0, [*notes, *(f'failed: {name}' for name in failed)])


def tracked(*patterns):
    out = subprocess.run(['git', '-C', ROOT, 'ls-files', '-co', '--exclude-standard', *patterns], check=True,
                         capture_output=True, text=True).stdout
    return [ROOT / line for line in out.splitlines() if (ROOT / line).exists()]


def suite_style(arguments, log):
    sources, units = tracked('*.c', '*.h'), [p for p in tracked('*.c') if p.parent.name not in ('guest', 'fuzz')]
    checks = {
        'check-deps': [ROOT / 'scripts/check-deps', ROOT],
        'clang-format': ['clang-format', '--dry-run', '-Werror', *sources],
        # Suppressed: what cppcheck cannot know of g_assert (does not return), of reference counts and of g_autofree.
        'cppcheck': ['cppcheck', '-q', '-j', '2', '--error-exitcode=1', '--inline-suppr', '--enable=warning,portability',
                     '--library=gtk', '-i', ROOT / 'tests', '--suppress=nullPointerRedundantCheck',
                     '--suppress=arrayIndexOutOfBoundsCond', '--suppress=deallocret',
                     '--suppress=memleak', f'--project={BUILD}/compile_commands.json'],
        'clang-tidy': ['/bin/sh', '-c', 'printf "%s\\n" "$@" | xargs -P 2 -n 8 clang-tidy --quiet -p "$0"', BUILD, *units],
    }
    failed = [name for name, command in checks.items() if run(command, log, cwd=ROOT) != 0]
    return Result(len(checks) - len(failed), len(failed), 0, [f'failed: {name}' for name in failed])


def pytest_suite(paths, arguments, log, name, **variables):
    report = BUILD / f'junit-{name}.xml'
    report.unlink(missing_ok=True)
    extra = ['--long'] if arguments.long and name != 'nested' else []
    environment = {**os.environ, 'COWBIRD_BUILD': str(BUILD), **variables}
    status = run([*PYTEST, f'--junitxml={report}', *paths, *extra], log, cwd=ROOT, env=environment)
    return read_junit(report, status)


def suite_functional(arguments, log):
    return pytest_suite([ROOT / 'tests/functional'], arguments, log, 'functional')


def suite_linux(arguments, log):
    return pytest_suite([ROOT / 'tests/nested'], arguments, log, 'nested')


def libvirt_tests(arguments, log, version):
    """Two processes at once; their logs, one after the other, become the suite's."""
    def run_files(number, files):
        name = f'libvirt-{version}-{number}'
        with open(BUILD / f'check-{name}.log', 'w') as part:
            return pytest_suite(files, arguments, part, name, COWBIRD_LIBVIRT=version)

    results = run_shares(ROOT / 'tests/libvirt', run_files)
    for number in range(1, len(results) + 1):
        log.write((BUILD / f'check-libvirt-{version}-{number}.log').read_text(errors='replace'))
    return added(results)


def suite_libvirt(arguments, log):
    return libvirt_tests(arguments, log, '9')


def suite_libvirt_11(arguments, log):
    """The same with Debian 13's libvirt, in a chroot that is made on first use."""
    trixie = ROOT / 'tests/libvirt/trixie.py'
    if os.geteuid() != 0 or not shutil.which('debootstrap', path='/usr/sbin:/usr/bin'):
        return Result(0, 0, 1, ['skipped: a chroot with Debian 13 needs root and debootstrap'])
    if run([trixie, 'path'], log) != 0 and run([trixie, 'create'], log) != 0:
        return Result(0, 1, 0, ['the chroot with Debian 13 was not made'])
    return libvirt_tests(arguments, log, '11')


SUITES = {
    'unit': suite_unit,
    'qtest': suite_qtest,
    'sanitizers': suite_sanitizers,
    'fuzz': suite_fuzz,
    'style': suite_style,
    'functional': suite_functional,
    'linux': suite_linux,
    'libvirt': suite_libvirt,
    'libvirt-11': suite_libvirt_11,
}
ONLY_LONG = ['libvirt-11']


def parse_arguments():
    parser = argparse.ArgumentParser(prog='check', description='Run every test; exit status 1 if one fails.')
    parser.add_argument('--long', action='store_true', help=f'the long form of tests that have one, and {", ".join(ONLY_LONG)}')
    parser.add_argument('--only', action='append', metavar='SUITE[,SUITE]', help=f'of {", ".join(SUITES)}')
    parser.add_argument('--durations', action='store_true', help='name the ten slowest tests of each suite')
    parser.add_argument('--list', action='store_true', help='list the suites and end')
    arguments = parser.parse_args()
    wanted = [name for value in arguments.only or [] for name in value.split(',')]
    for name in wanted:
        if name not in SUITES:
            parser.error(f"there is no suite '{name}'; valid: {', '.join(SUITES)}")
    arguments.suites = wanted or [name for name in SUITES if arguments.long or name not in ONLY_LONG]
    return arguments


def run_suite(name, arguments):
    log_path = BUILD / f'check-{name}.log'
    begin = time.monotonic()
    with open(log_path, 'w') as log:
        result = SUITES[name](arguments, log)
    print(f'{name:12} {result.passed:5} passed {result.failed:4} failed {result.skipped:4} skipped '
          f'{time.monotonic() - begin:7.1f} s   {log_path.relative_to(ROOT)}', flush=True)
    for note in result.notes:
        print(f'    {note}')
    if arguments.durations:
        for seconds, test in sorted(result.times, reverse=True)[:10]:
            print(f'    {seconds:7.2f} s  {test}')
    return result


def main():
    arguments = parse_arguments()
    if arguments.list:
        print('\n'.join(SUITES))
        return 0
    results = [run_suite(name, arguments) for name in arguments.suites]
    passed, failed, skipped = (sum(getattr(r, field) for r in results) for field in ('passed', 'failed', 'skipped'))
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed else 0


sys.exit(main())
