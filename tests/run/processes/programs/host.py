"""A program that runs an agent: `host.py HOW MODE NOTES`, to be killed while the agent works."""

from __future__ import annotations

import os
import sys
import time

from penstock import agent

AGENT = os.path.join(os.path.dirname(__file__), "agent.py")


def main(how: str, mode: str, notes: str) -> None:
    """Run the agent, and stay."""
    command = [sys.executable, "-S", AGENT, mode]
    run = agent("faulty", command=command, adapter="claude", env={"NOTES": notes}).run("hi").start()
    with open(os.path.join(notes, "mark.new"), "w") as file:
        file.write("mark " + run.mark)
    os.rename(os.path.join(notes, "mark.new"), os.path.join(notes, "mark"))
    if how == "forks" and os.fork() == 0:
        with open(os.path.join(notes, "fork"), "w") as file:
            file.write("fork " + str(os.getpid()))
    time.sleep(1000)


if __name__ == "__main__":
    main(*sys.argv[1:])
