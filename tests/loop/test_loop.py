"""Whole loops with scripted agents, git and processes. The letter and number of a test is that of its promise."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from loop_desk import Desk, began

from penstock.cli.loop.words import next_commands
from penstock.errors import UsageError
from penstock.loop.fold import fold
from penstock.loop.inbox import LoopInbox
from penstock.loop.journal import Journal
from penstock.loop.loops import begin_loop
from penstock.loop.rows import LoopBudget, RoleAgents
from penstock.run import fallback

pytestmark = pytest.mark.slow


def test_l4_promises_do_not_end_a_loop(desk: Desk) -> None:
    """An agent says every promise word at once and changes nothing, and the checks are red: status 1 after 3 rounds."""
    desk.agent("talker", 'reply "COMPLETE LOOP_COMPLETE ALL_TASKS_DONE EXIT_SIGNAL true"')
    status, state = desk.run(desk.settings("talker"))
    assert status == 1
    assert state.used.rounds == 3
    assert state.ended is not None
    assert "stuck" in state.ended.reason


def test_l5_a_loop_ends_by_the_fixed_point(desk: Desk) -> None:
    """An agent that never says done finishes in round 2; round 3 changes nothing, and the status is 0."""
    desk.agent("worker", 'n=$(count worker); if [ $n = 1 ]; then echo a > half; else echo b > done; fi; reply "Add $n"')
    before = desk.user.state()
    status, state = desk.run(desk.settings("worker"))
    assert status == 0
    assert state.used.rounds == 3
    assert desk.subjects() == ["Add 2"]
    assert {"half", "done"} <= set(desk.files())
    assert desk.user.state() == before


def test_l6_protected_files_are_back_before_the_check(desk: Desk) -> None:
    """An agent that edits the prompt, the configuration and the script of the check changes none of them."""
    desk.user.commit("Check", {"check.sh": "exit 1\n", "penstock.toml": "[output]\n"})
    desk.agent("cheat", 'echo "exit 0" > check.sh; echo x > PROMPT.md; rm penstock.toml; echo y >> new; reply "Done"')
    status, state = desk.run(desk.settings("cheat", checks=("sh check.sh",)))
    assert status == 1
    assert state.rounds[0].red is not None
    tree = f"{state.rounds[0].work.tree}" if state.rounds[0].work else ""
    assert desk.user.git("show", f"{tree}:check.sh") == "exit 1"
    assert desk.user.git("show", f"{tree}:PROMPT.md") == "Make it work."
    assert desk.user.git("show", f"{tree}:penstock.toml") == "[output]"


def test_hooks_among_the_files_are_put_back(desk: Desk) -> None:
    """A hook that an agent writes where `core.hooksPath` points does not start with the user's next commit."""
    desk.user.git("config", "core.hooksPath", "tools/hooks")
    desk.user.commit("Hooks", {"tools/hooks/README": "None yet.\n", "lefthook.yml": "pre-commit: {}\n"})
    hooks = 'printf "#!/bin/sh\\ntouch ran" > tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit'
    desk.agent("cheat", f'{hooks}; echo x > lefthook.yml; touch .lefthook.yaml done; reply "Done"')
    status, _ = desk.run(desk.settings("cheat"))
    assert status == 0
    assert desk.penstock("loop", "land", "l1").returncode == 0
    desk.user.commit("Mine", {"mine": "x\n"})
    assert not (desk.user.root / "ran").exists()
    assert {".lefthook.yaml", "tools/hooks/pre-commit"}.isdisjoint(desk.files())
    assert (desk.user.root / "lefthook.yml").read_text() == "pre-commit: {}\n"


def test_l6_changed_tests_are_listed_to_the_reviewer(desk: Desk) -> None:
    """Tests that an agent skips, and settings of tests that it edits, are named in the prompt of the reviewer."""
    desk.user.commit("Tests", {"tests/test_a.py": "def test_a(): ...\n", "conftest.py": "", "keep.py": ""})
    skip = "sed -i '1i import pytest; pytestmark = pytest.mark.skip' tests/test_a.py; echo x >> conftest.py"
    desk.agent("cheat", f'{skip}; touch done keep.py tests/test_b.py; reply "Done"')
    desk.agent("judge", 'cp "$DESK/prompt.$$" "$DESK/prompt.judge"; reply "No."')
    checks, judge = ("test -e done || pytest",), RoleAgents(agents=("judge",))
    desk.run(desk.settings("cheat", checks=checks, reviews=(judge,), budget=LoopBudget(rounds=1)))
    prompt = (desk.scripts / "prompt.judge").read_text()
    listed = "conftest.py (the check runs it)\ntests/test_a.py +1 −0\ntests/test_b.py (new)"
    assert f"check whether they still test as much:\n\n```\n{listed}\n```" in prompt


def test_l7_another_agent_takes_over_at_a_limit(desk: Desk) -> None:
    """The first agent is at its usage limit: the second works, and no round is charged for the first."""
    desk.agent("first", "limited 4102444800")
    desk.agent("second", 'touch done; reply "Add done"')
    journal = desk.begin(desk.settings("first", "second"))
    engine, watcher = desk.engine(journal)
    assert engine.run() == 0
    assert [step.agent for step in began(watcher.rows)] == ["first", "second", "second"]
    assert engine.state.used.rounds == 2


def test_l7_all_agents_at_their_limits(desk: Desk) -> None:
    """All agents are at their limits: status 6 without --wait."""
    desk.agent("first", "limited 4102444800")
    status, state = desk.run(desk.settings("first"))
    assert status == 6
    assert state.used.rounds == 0


def test_l7_a_reset_that_is_near_is_waited_for(desk: Desk) -> None:
    """The limit resets in four seconds: the loop waits for it and goes on with the same agent."""
    desk.agent(
        "first", 'if [ $(count first) = 1 ]; then limited $(($(date +%s) + 4)); else touch done; reply "Add"; fi'
    )
    status, state = desk.run(desk.settings("first", wait_ms=60_000))
    assert status == 0
    assert state.used.rounds == 2


def test_l7_too_many_requests_are_not_charged(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers with status 429 are retried with the same agent, and no round is charged for them."""
    monkeypatch.setattr(fallback, "FIRST_WAIT_MS", 50)
    desk.agent("first", 'if [ $(count first) -le 2 ]; then failed 429; else touch done; reply "Add done"; fi')
    desk.agent("second", 'reply "never"')
    status, state = desk.run(desk.settings("first", "second"))
    assert status == 0
    assert state.used.rounds == 2
    assert {it.agent for it in state.rounds} == {"first"}
    assert len((desk.scripts / "first.count").read_text().splitlines()) == 4


def test_l7_words_about_limits_are_no_limit(desk: Desk) -> None:
    """A reply that only talks about rate limits changes no agent."""
    desk.agent("first", 'touch done; reply "I handled the usage limit: 429 rate_limit_error, resets at 5pm"')
    desk.agent("second", 'reply "never"')
    status, state = desk.run(desk.settings("first", "second"))
    assert status == 0
    assert {it.agent for it in state.rounds} == {"first"}


def test_l8_a_running_agent_is_stopped_at_its_budget(desk: Desk) -> None:
    """Tokens that pass the budget in mid-run cancel the agent, and the loop ends with 5."""
    message = '{"id":"m1","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":900,"output_tokens":200}}'
    usage = f'{{"type":"assistant","message":{message}}}'
    desk.agent("big", f"printf '%s\\n' '{usage}'; printf '%s\\n' '{usage.replace('m1', 'm2')}'; sleep 1000")
    status, state = desk.run(desk.settings("big", budget=LoopBudget(tokens=800)))
    assert status == 5
    assert state.used.tokens >= 800
    work = state.rounds[0].work
    assert work is not None
    assert work.cause == "budget"


def test_l8_an_agent_that_reports_no_cost(desk: Desk) -> None:
    """With a budget of cost alone, an agent that reports none works for one step: status 5 says what to set."""
    desk.agent("silent", 'COST=null; touch half; reply "Add a part"')
    status, state = desk.run(desk.settings("silent", budget=LoopBudget(cost_usd=5.0)))
    assert status == 5
    assert len(state.rounds) == 1
    assert state.ended is not None
    assert "the cost is unknown: silent does not report it" in state.ended.reason


def test_l8_a_used_budget_needs_more(desk: Desk) -> None:
    """A loop that ended with 5 ends so again without starting an agent, and goes on with more tokens."""
    desk.agent("worker", 'if [ $(count worker) = 2 ]; then touch done; else touch half; fi; reply "Add a part"')
    assert desk.run(desk.settings("worker", budget=LoopBudget(tokens=100)))[0] == 5
    assert desk.resume()[0] == 5
    assert len((desk.scripts / "worker.count").read_text().splitlines()) == 1
    status, state = desk.resume(tokens=1_000)
    assert status == 0
    assert state.used.tokens == 330


def test_l8_a_resumed_loop_goes_on_only_with_more(desk: Desk) -> None:
    """A loop that has used its rounds ends again when it is resumed without more of them, and counts on with more."""
    desk.agent("slow", 'n=$(count slow); echo $n > half; if [ $n -ge 3 ]; then touch done; fi; reply "Add $n"')
    status, state = desk.run(desk.settings("slow", budget=LoopBudget(rounds=2)))
    assert (status, state.used.rounds) == (1, 2)
    status, state = desk.resume()
    assert (status, state.used.rounds) == (1, 2)
    status, state = desk.resume(rounds=3)
    assert state.used.rounds == 5
    assert desk.subjects() == ["Add 3", "Add 4", "Add 5"]


def test_l9_secrets_are_not_committed(desk: Desk) -> None:
    """A key, 20,000 files of dependencies and a large file are in no commit; status 4, and the reason names them."""
    junk = "mkdir -p vendor; (cd vendor; seq 20000 | xargs touch); head -c 20000000 /dev/zero > big.bin"
    desk.agent("leaky", f'touch done; echo "KEY=1" > prod.env; [ -e big.bin ] || {{ {junk}; }}; reply "Add"')
    status, state = desk.run(desk.settings("leaky"))
    assert status == 4
    assert state.ended is not None
    assert all(name in state.ended.reason for name in ("prod.env", "vendor/", "big.bin"))
    refs = desk.user.git("for-each-ref", "--format=%(refname)", "refs/penstock/l1").splitlines()
    assert refs
    for ref in refs:
        names = desk.user.git("ls-tree", "-r", "--name-only", ref).splitlines()
        assert not [name for name in names if name in ("prod.env", "big.bin") or name.startswith("vendor")]


def test_a_held_file_is_committed_when_the_user_accepts_it(desk: Desk) -> None:
    """A resume that accepts the file that ended the loop commits it, and no agent is asked to remove it again."""
    desk.agent("leaky", 'touch done; echo "KEY=1" > prod.env; reply "Add"')
    assert desk.run(desk.settings("leaky", accept=("*.env",)), name="l0")[0] == 0
    assert "prod.env" in desk.files("penstock/l0")
    status, state = desk.run(desk.settings("leaky"))
    assert status == 4
    assert [line for line in next_commands(state) if "--accept" in line] == [
        "to commit them:    penstock loop resume l1 --accept prod.env"
    ]
    before = set(desk.scripts.glob("prompt.*"))
    assert any("add them to .gitignore" in path.read_text() for path in before)
    assert desk.resume(accepts=["prod.env"])[0] == 0
    assert "prod.env" in desk.files()
    after = set(desk.scripts.glob("prompt.*")) - before
    assert after
    assert not any("add them to .gitignore" in path.read_text() for path in after)


def test_l11_a_reviewer_changes_nothing(desk: Desk) -> None:
    """What a reviewer writes into the tree is thrown away, and its approval counts."""
    desk.agent("worker", 'touch done; reply "Add done"')
    verdict = '{"type":"result","subtype":"success","is_error":false,"result":"{\\"approved\\": true}"}'
    desk.agent("judge", f"echo bad > README; touch more; cat <<'END'\n{verdict}\nEND")
    status, _ = desk.run(desk.settings("worker", reviews=(RoleAgents(agents=("judge",)),)))
    assert status == 0
    assert "more" not in desk.files()
    assert desk.user.git("show", "penstock/l1:README") == "hello"


def test_l11_prose_does_not_approve(desk: Desk) -> None:
    """A reviewer that answers in prose, with an approval in a quotation, does not approve: nothing is committed."""
    desk.agent("worker", 'touch done; reply "Add done"')
    quoted = r'It says: {\\"approved\\": true}. Approved!'
    desk.agent("judge", f"reply '{quoted}'")
    status, _ = desk.run(desk.settings("worker", reviews=(RoleAgents(agents=("judge",)),)))
    assert status == 1
    assert desk.user.git("for-each-ref", "refs/heads/penstock") == ""


def test_l13_the_same_loop_twice(desk: Desk) -> None:
    """A second process for the same loop is rejected by the lock."""
    desk.agent("worker", 'touch done; reply "Add done"')
    journal = desk.begin(desk.settings("worker"))
    with pytest.raises(UsageError, match="another process"):
        Journal.open(journal.folder)
    journal.close()
    Journal.open(journal.folder).close()


def test_l16_a_green_base_without_changes(desk: Desk) -> None:
    """The checks are green on the base and the agent changes nothing: status 4, never 0."""
    desk.agent("idle", 'reply "Nothing to do."')
    status, state = desk.run(desk.settings("idle", checks=("true",)))
    assert status == 4
    assert state.ended is not None
    assert state.ended.reason == "nothing was changed; the agent says: Nothing to do."


def test_l18_three_boxes_and_one_of_them_done(desk: Desk) -> None:
    """Of three boxes only the first is worked on: the status is not 0."""
    desk.user.commit("Boxes", {"PROMPT.md": "- [ ] one\n- [ ] two\n- [ ] three\n"})
    desk.agent("lazy", 'touch done; reply "Add done"')
    status, state = desk.run(desk.settings("lazy"))
    assert status == 4
    assert state.ended is not None
    assert state.ended.reason == "nothing was changed for: two; three"


def test_a_message_reaches_the_next_prompt(desk: Desk) -> None:
    """What the user writes while the loop runs is in the prompt of the next round."""
    desk.agent("worker", 'cp "$DESK/prompt.$$" "$DESK/prompt.$(count worker)"; touch done; reply "Add done"')
    journal = desk.begin(desk.settings("worker"))
    LoopInbox(journal.folder).put("message", "use the new API")
    engine, _ = desk.engine(journal)
    assert engine.run() == 0
    assert "use the new API" in (desk.scripts / "prompt.1").read_text()
    assert engine.state.messages[0].text == "use the new API"


def test_a_stop_ends_the_running_agent(desk: Desk) -> None:
    """A stop from another process cancels the agent that works; the tree is kept, and a resume goes on."""
    desk.agent("worker", 'if [ $(count worker) = 1 ]; then touch half; sleep 1000; fi; touch done; reply "Add"')
    journal = desk.begin(desk.settings("worker"))
    engine, _ = desk.engine(journal)

    def stop() -> None:
        while not (desk.folder / "work" / "app.l1" / "half").exists():
            time.sleep(0.02)
        LoopInbox(journal.folder).put("stop_now")

    thread = threading.Thread(target=stop)
    thread.start()
    assert engine.run() == 130
    thread.join()
    journal.close()
    status, _ = desk.resume()
    assert status == 0
    assert {"half", "done"} <= set(desk.files())


def test_a_red_hook_of_the_user_is_a_red_check(desk: Desk) -> None:
    """The user's pre-commit hook runs over the tree; what it rejects is not committed."""
    hook = desk.user.root / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ntest ! -e bad || { echo bad file; exit 1; }\n")
    hook.chmod(0o755)
    desk.agent("worker", 'if [ $(count worker) = 1 ]; then touch bad; else rm -f bad; fi; touch done; reply "Add done"')
    status, state = desk.run(desk.settings("worker"))
    assert status == 0
    assert state.rounds[0].red_command == "pre-commit"
    assert state.rounds[0].red is not None
    assert "bad file" in state.rounds[0].red.output
    assert "bad" not in desk.files()


def test_l17_denied_edits_are_not_done(desk: Desk) -> None:
    """The agent's edit is denied, the base is green, and nothing was changed: status 4 names the edit."""
    call = '{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Edit","input":{"file_path":"a.py"}}]}'
    answer = '{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"denied"}]}'
    end = '"permission_denials":[{"tool_name":"Edit","tool_use_id":"t1","tool_input":{"file_path":"a.py"}}]'
    lines = [
        f'{{"type":"assistant","message":{call}}}',
        f'{{"type":"user","message":{answer}}}',
        f'{{"type":"result","subtype":"success","is_error":false,"result":"I could not.",{end}}}',
    ]
    desk.agent("denied", "cat <<'END'\n" + "\n".join(lines) + "\nEND")
    status, state = desk.run(desk.settings("denied", checks=("true",)))
    assert status == 4
    assert state.ended is not None
    assert "edits were denied: Edit a.py" in state.ended.reason


def test_l17_denied_commands_are_counted(desk: Desk) -> None:
    """The agent's command is denied and nothing was changed: the reason counts it and names the flag."""
    call = '{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make test"}}]}'
    answer = '{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"denied"}]}'
    end = '"permission_denials":[{"tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"make test"}}]'
    lines = [
        f'{{"type":"assistant","message":{call}}}',
        f'{{"type":"user","message":{answer}}}',
        f'{{"type":"result","subtype":"success","is_error":false,"result":"I could not.",{end}}}',
    ]
    desk.agent("denied", "cat <<'END'\n" + "\n".join(lines) + "\nEND")
    status, state = desk.run(desk.settings("denied", checks=("true",)))
    assert status == 4
    assert state.ended is not None
    assert "and 1 action was denied; a new loop with --allow all permits that" in state.ended.reason


def test_commits_are_signed_if_the_user_wants_it(desk: Desk, tmp_path: Path) -> None:
    """With `sign`, each commit of the loop has a signature that git verifies with the user's key."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (tmp_path / "signers").write_text("uma@example.org " + key.with_suffix(".pub").read_text())
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)),
                        ("gpg.ssh.allowedSignersFile", str(tmp_path / "signers"))):  # fmt: skip
        desk.user.git("config", name, value)
    desk.agent("worker", 'touch done; reply "Add done"')
    assert desk.run(desk.settings("worker", sign=True))[0] == 0
    assert desk.user.git("log", "-1", "--format=%G?", "penstock/l1") == "G"
    assert desk.run(desk.settings("worker"), "l2")[0] == 0
    assert desk.user.git("log", "-1", "--format=%G?", "penstock/l2") == "N"


def test_the_worker_is_asked_for_subjects_as_the_users(desk: Desk) -> None:
    """If all of the user's commits have the form of Conventional Commits, the prompt asks for it."""
    desk.agent("worker", 'cp "$DESK/prompt.$$" "$DESK/prompt.$(count worker)"; touch done; reply "feat: add done"')
    assert desk.run(desk.settings("worker"))[0] == 0
    assert "Conventional" not in (desk.scripts / "prompt.1").read_text()
    for number in range(20):
        desk.user.git("commit", "-q", "--allow-empty", "-m", f"fix: number {number}")
    assert desk.run(desk.settings("worker"), "l2")[0] == 0
    assert "in the form of Conventional Commits" in (desk.scripts / "prompt.3").read_text()
    assert desk.subjects("penstock/l2") == ["feat: add done"]


def test_a_prompt_that_an_agent_cannot_get_fails_its_rounds(desk: Desk) -> None:
    """An agent that cannot be started with its prompt fails and is charged, and the loop ends by its rules."""
    desk.agent("argument", 'reply "never"')
    desk.configure(f'[agents.argument]\nadapter = "claude"\ncommand = ["sh", "{desk.scripts}/argument.sh"]\n'
        'prompt = "argument"\n')  # fmt: skip
    desk.prompt.write_text("Make it work.\n" + "x" * 200_000)
    status, state = desk.run(desk.settings("argument"))
    assert status == 1
    assert state.used.rounds == 3
    assert state.rounds[0].work is not None
    assert "too long for argument" in state.rounds[0].work.reason


def test_an_output_with_a_nul_reaches_an_agent_by_argument(desk: Desk) -> None:
    """The output of a check may have any bytes; an agent that gets its prompt as an argument gets it without NUL."""
    desk.agent("argument", 'touch done; reply "Add done"')
    desk.configure(f'[agents.argument]\nadapter = "claude"\ncommand = ["sh", "{desk.scripts}/argument.sh"]\n'
        'prompt = "argument"\n')  # fmt: skip
    status, _ = desk.run(desk.settings("argument", checks=("printf 'a\\0b'; test -e done",)))
    assert status == 0


def test_a_conversation_is_not_resumed_by_an_agent_that_cannot(desk: Desk) -> None:
    """--keep-session begins a new conversation in each round with an agent that resumes none."""
    desk.agent("worker", 'touch done; reply "Add done"')
    status, state = desk.run(desk.settings("worker", keep_session=True))
    assert status == 0
    assert state.used.rounds == 2


def test_a_check_with_a_very_long_word(desk: Desk) -> None:
    """A word of a check that is too long for a path is no file that is protected."""
    journal = desk.begin(desk.settings("worker", checks=("echo " + "x" * 5_000,)))
    assert "penstock.toml" in fold(journal.rows).settings.protect
    journal.close()


def test_a_repository_whose_path_is_not_utf_8(desk: Desk, tmp_path: Path) -> None:
    """A path that the journal cannot have is an error at the start."""
    folder = os.fsencode(tmp_path) + b"/a\xff"
    desk.user.root.parent.rename(os.fsdecode(folder))
    with pytest.raises(UsageError, match="is not UTF-8"):
        begin_loop(desk.data, Path(os.fsdecode(folder)) / "app" / "PROMPT.md", desk.settings("worker"), "l1")


def test_the_subject_of_a_commit_is_the_first_line_of_the_reply(desk: Desk) -> None:
    """A long reply is kept in part, and its first line is nevertheless the subject."""
    desk.agent("worker", f'touch done; reply "Add the parser\\n\\n{"many words " * 400}"')
    status, _ = desk.run(desk.settings("worker"))
    assert status == 0
    assert desk.subjects() == ["Add the parser"]


def test_l9_a_token_in_a_reply_is_in_no_commit(desk: Desk) -> None:
    """A token that an agent repeats in its reply is in no subject, row or later prompt, and bytecode is no fault."""
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ456789"
    cache = "mkdir -p src/__pycache__; echo x > src/__pycache__/a.cpython-311.pyc"
    desk.agent("worker", f'n=$(count worker); {cache}; [ $n -gt 1 ] && touch done; reply "fix: use the token {token}"')
    status, state = desk.run(desk.settings("worker"))
    assert status == 0
    assert [state.stage(it) for it in state.rounds] == ["red", "green", "unchanged"]
    assert desk.subjects() == ["fix: use the token [removed: a token of GitHub]"]
    assert "src/__pycache__/a.cpython-311.pyc" not in desk.files()
    assert token not in (desk.data / "loops/l1/journal.ndjson").read_text()
    assert all(token not in path.read_text() for path in desk.scripts.glob("prompt.*"))


def test_a_loop_of_a_sub_directory_works_there(desk: Desk) -> None:
    """Agent, check and setup start in the directory of the tree that is that of the user; the row names it."""
    desk.agent("worker", 'pwd > where; touch done; reply "Add done"')
    settings = desk.settings("worker", setup="pwd -P > ../setup.txt", checks=("test -e done && test -e a.py",))
    journal = begin_loop(desk.data, desk.prompt, settings, "l1", desk.user.root / "src")
    engine, _ = desk.engine(journal)
    assert engine.run() == 0
    journal.close()
    tree = desk.user.root.parent / "app.l1"
    assert desk.user.git("show", "penstock/l1:src/where") == str(tree / "src")
    assert "src/done" in desk.files()
    assert engine.state.began.directory == "src"
    (desk.user.root / "new").mkdir()
    with pytest.raises(UsageError, match="is not in the last commit"):
        begin_loop(desk.data, desk.prompt, settings, "l2", desk.user.root / "new")


@pytest.mark.parametrize("instead", ["ln -s {user}/src src", "echo file > src", "ln -s / src", "true"])
def test_a_sub_directory_that_is_gone(desk: Desk, instead: str) -> None:
    """A directory that an agent removes, or replaces by a link or a file, stops no loop and is never followed."""
    replace = f"cd ..; rm -r src; {instead.format(user=desk.user.root)}"
    desk.agent("worker", f'n=$(count worker); pwd -P >> "$DESK/where"; [ $n = 1 ] && ({replace}); reply "Work $n"')
    before = desk.user.state()
    settings = desk.settings("worker", checks=('pwd -P >> "$OUT"; exit 1',), budget=LoopBudget(rounds=2))
    journal = begin_loop(desk.data, desk.prompt, settings, "l1", desk.user.root / "src")
    engine, _ = desk.engine(journal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUT", str(desk.scripts / "checked"))
        assert engine.run() == 1
    journal.close()
    assert desk.user.state() == before
    tree = desk.user.root.parent / "app.l1"
    assert set((desk.scripts / "checked").read_text().split()) == {str(tree / "src")}
    places = (desk.scripts / "where").read_text().split()
    assert places == [str(tree / "src"), str(tree / "src") if instead == "true" else str(tree)]
    red = engine.state.rounds[0].red
    assert red is not None
    assert (instead == "true") is (red.reason == "")


def test_files_that_a_check_of_a_sub_directory_names_are_protected(desk: Desk) -> None:
    """A check names files from its own directory."""
    desk.user.commit("Check", {"src/check.sh": "test -e done\n"})
    journal = begin_loop(
        desk.data, desk.prompt, desk.settings("w", checks=("sh check.sh",)), "l1", desk.prompt.parent / "src"
    )
    journal.close()
    assert "src/check.sh" in fold(journal.rows).settings.protect
