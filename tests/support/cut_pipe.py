"""A pipe between a client and a program, as ssh is one, which breaks after a number of bytes: it is gone, as if killed.

    cut_pipe.py BYTES_IN BYTES_OUT COMMAND…

They are counted from the first prompt on. A number below zero is no limit.
"""

import os
import select
import signal
import subprocess
import sys


def main() -> None:
    """Pass the bytes on, in both directions."""
    left = {0: int(sys.argv[1]), 1: int(sys.argv[2])}
    program = subprocess.Popen(sys.argv[3:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert program.stdin is not None
    assert program.stdout is not None
    has_begun = False
    ways = {0: (0, program.stdin.fileno()), program.stdout.fileno(): (1, 1)}
    while ways:
        for source in select.select([*ways], [], [])[0]:
            way, sink = ways[source]
            data = os.read(source, 65536)
            has_begun = has_begun or b"session/prompt" in data
            is_over = not data
            if has_begun and left[way] >= 0:
                data = data[: left[way]]
                left[way] -= len(data)
            while data:
                data = data[os.write(sink, data) :]
            if left[way] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if is_over:
                os.close(sink)
                del ways[source]


main()
