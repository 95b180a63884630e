"""Cuts a journal in front of the last record that is a further part of an order, as a crash
before that record was written would have left it: cut.py DIRECTORY. The format is
that of the package comment of internal/journal."""

import pathlib
import sys

CONTINUED = 0x80 | 9  # a record's first byte: with flags, of kind OrderContinued

last = None
segments = sorted(pathlib.Path(sys.argv[1]).glob("*.seg"))
for path in segments:
    content, at = path.read_bytes(), 64
    while length := int.from_bytes(content[at:at + 4], "little"):
        if length > 24 and content[at + 24] == CONTINUED:
            last = path, at
        at += (length + 7) // 8 * 8
path, at = last
content = path.read_bytes()
path.write_bytes(content[:at] + bytes(len(content) - at))
for later in segments[segments.index(path) + 1:]:
    later.unlink()
