"""A small agent with the lines of Claude Code. Each word of its prompt is a list of the commands that it offers: `a,b`.

The word `-` is an empty list. A prompt that begins with a slash is answered with itself, and `hello` lists nothing.
"""

from __future__ import annotations

import json
import sys


def say(**line: object) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps({**line, "session_id": "s1"}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """List what the prompt names, and answer it."""
    prompt = sys.stdin.read().strip()
    say(type="system", subtype="init", model="m")
    if not prompt.startswith(("/", "hello")):
        for word in prompt.split():
            names = [] if word == "-" else word.split(",")
            described = [
                {"name": name, "description": f"Does {name} \x1b[31mnow\u202e", "argumentHint": "what"}
                for name in names
            ]
            say(type="system", subtype="commands_changed", commands=described)
    content = [{"type": "text", "text": prompt if prompt.startswith("/") else "Done."}]
    say(type="assistant", message={"id": "m1", "role": "assistant", "content": content})
    say(type="result", subtype="success", is_error=False, result=content[0]["text"], num_turns=1)


if __name__ == "__main__":
    main()
