# What virsh prints, compared with what is expected line by line.
#
# SPDX-License-Identifier: GPL-2.0-or-later
import re

PLACES = {'<n>': r'-?\d+', '<t>': r'[\d.]+s', '<word>': r'\S+', '<any>': r'.*'}


def pattern(line):
    """A regular expression: <n> is a number, <t> a time, <word> a word, <any> anything; white space may be of any length."""
    text = re.escape(' '.join(line.split())).replace(r'\ ', r'\s+')
    for place, expression in PLACES.items():
        text = text.replace(place, expression)
    return text + r'\s*'


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def prints(text, expected):
    """The text consists of these lines, in this order."""
    found, wanted = lines_of(text), lines_of(expected)
    for line, want in zip(found, wanted):
        assert re.fullmatch(pattern(want), line), f'{line!r} is not {want!r}; all of it:\n{text}'
    assert len(found) == len(wanted), f'{len(found)} lines in place of {len(wanted)}:\n{text}'


def has_lines(text, expected):
    """Each of these lines is in the text."""
    found = lines_of(text)
    for want in lines_of(expected):
        assert any(re.fullmatch(pattern(want), line) for line in found), f'there is no {want!r} in\n{text}'


def fields(text, separator=None):
    """NAME SEPARATOR VALUE a line, as a dict of strings."""
    pairs = (line.split(separator, 1) for line in lines_of(text))
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}
