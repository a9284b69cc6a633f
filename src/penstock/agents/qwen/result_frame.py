"""Lines around the output of a command, which qwen adds for its model (`ShellTool` of qwen 0.24.4).

The plain route prints them for a command that failed or had no output, ACP for one that had no output.
"""

FRAME_END = (
    r"(?:\nError: \(none\))?\nExit Code: (\d{1,10})\nSignal: (?:(?P<signal>[1-9]\d*)|[^\n]*)"
    r"(?:\n(?:Background PIDs|Process Group PGID): [^\n]*)*\Z"
)
"""Regular expression of the lines after the output; its groups are the exit status and `signal`. The error of a command
that could not be started is not part of it."""

FRAME_START = r"(?s)(?:Command: .*?\n)?Directory: [^\n]*\nOutput: (?:\(empty\)(?:\Z|\n(?=Error: )))?(.*)"
"""Regular expression of the whole text without `FRAME_END`; its group is the output. It is never cut: of a command with
lines that look like these, the group also has a part of the command."""
