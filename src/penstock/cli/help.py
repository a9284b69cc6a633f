"""Text of `penstock --help`. The names and the stream commands of the agents come from the registry."""

from __future__ import annotations

from penstock.agents.detection import stream_flags

_TEXT = """\
Turns the output of any AI coding agent into one clean event stream.

usage:
  AGENT … | penstock [options]        read what an agent prints, live
  penstock COMMAND [options]

commands:
  run AGENT PROMPT start an agent, or several ({first},{second}), and show what it does
  read [FILE…]     read streams from files or stdin (what `penstock` alone does with a pipe)
  demo             replay a real recording, at its real pace
  replay FILE      replay a recording of your own
  doc FILE.md      ask what you wrote in a document; the reply is written into it
  loop PROMPT.md   work on a repository until the work is done
  serve            chat with agents in a browser
  acp              chat with agents in an editor that speaks ACP
  mcp              let another agent ask agents, as tools of MCP
  link             print a link to sign in to the server on this machine
  chats            list the chats of the server on this machine, stop, delete or export them
  people           say who else may use the server on this machine, and what each may do
  audit            show what people did at the server on this machine
  nodes            list the machines that share a store, and what runs on each
  last             show the last run of this directory again, or its diff, reply or failures
  show N           show an earlier run again
  history          list earlier runs; `penstock history clear` forgets them
  cost             add up what runs cost, by day, agent or directory
  sessions         list earlier conversations, to go on with one
  trees            list, compare and merge the trees of `run --worktree` and `loop`, and remove those not needed
  store            make, check and fill the database of several machines
  agents           list the known agents and what each can do
  models           list the models that agents list
  drift            compare what the installed agents can print with what Penstock knows of it
  config           show the configuration and where it comes from
  completion       print the script that completes all of this in a shell

  penstock COMMAND --help describes a command; penstock --version prints the version.

commands whose output can be piped in:
{streams}

examples:
  penstock run {first} "fix the failing test"
  penstock run {first} --continue "now write the docs"
  answer=$(penstock run {third} "summarise README.md" --to reply)
  git diff | penstock run {first},{second},{third} "review this diff"
  {stream} "…" | penstock
  {other} "…" | penstock --detail minimal
  {other} "…" | penstock --to ndjson > events.ndjson
  answer=$({stream} "…" | penstock --to reply)
  penstock read a.ndjson b.ndjson --follow
"""


def text() -> str:
    """Return the help of the whole command."""
    streams = stream_flags()
    first, second, third, *_ = streams
    return _TEXT.format(
        first=first,
        second=second,
        third=third,
        streams="\n".join(f"  {command}" for command in streams.values()),
        stream=streams[first],
        other=streams[second],
    )
