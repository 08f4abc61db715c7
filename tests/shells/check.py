"""Types lines into bash, zsh and fish on a terminal, presses Tab, then Enter, and compares what the command was given.

The command is a script that hands `complete` on to the real one, and writes down the words of any other call.
"""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BINARY = os.path.abspath(sys.argv[1])
CWD_SESSIONS = [
    ("s0", "plain", "first words"),
    ("s1", "my session", "with a space"),
    ("s2", "odd $(touch pwned) `touch pwned` 'q' \"d\" *", "hostile"),
    ("s3", "esc\u001b[31mred", "not to be offered"),
]

# What is typed (a tab where Tab is pressed), and the words that the command gets.
CASES = [
    ("pi-sessions sho\tpla\t", ["show", "plain"]),
    ("pi-sessions show my\t", ["show", "my session"]),
    ("pi-sessions show 'my s\t", ["show", "my session"]),
    ("pi-sessions show \"my s\t", ["show", "my session"]),
    ("pi-sessions show odd\t", ["show", CWD_SESSIONS[2][1]]),
    ("pi-sessions show @l\t", ["show", "@last"]),
    ("pi-sessions goto plain dia\t", ["goto", "plain", "diagnosis"]),
    ("pi-sessions goto plain two\t", ["goto", "plain", "two words"]),
    ("pi-sessions fork plain --at=dia\t", ["fork", "plain", "--at=diagnosis"]),
    ("pi-sessions --root 'other root' show far\t", ["--root", "other root", "show", "far away"]),
    ("pi-sessions show esc\t", ["show", "esc"]),
    ("pi-sessions list --sor\tna\t", ["list", "--sort", "name"]),
]


def write_session(root, cwd, sid, name, text):
    folder = os.path.join(root, "--" + cwd.strip("/").replace("/", "-") + "--")
    os.makedirs(folder, exist_ok=True)
    lines = [
        {"type": "session", "version": 3, "id": sid, "timestamp": "2026-11-30T09:00:00.000Z", "cwd": cwd},
        {"type": "message", "id": "u1", "parentId": None, "message": {"role": "user", "content": text, "timestamp": 1}},
        {"type": "label", "id": "l1", "parentId": "u1", "targetId": "u1", "label": "diagnosis"},
        {"type": "message", "id": "u2", "parentId": "l1", "message": {"role": "user", "content": text, "timestamp": 2}},
        {"type": "label", "id": "l2", "parentId": "u2", "targetId": "u2", "label": "two words"},
        {"type": "session_info", "id": "n1", "parentId": "l2", "name": name},
    ]
    with open(os.path.join(folder, f"t_{sid}.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def shells(home, bin_dir):
    script = {}
    for shell in ("bash", "zsh", "fish"):
        path = os.path.join(home, f"completion.{shell}")
        with open(path, "wb") as file:
            file.write(subprocess.run([BINARY, "completions", shell], check=True, capture_output=True).stdout)
        script[shell] = path
    with open(os.path.join(home, "bashrc"), "w") as file:
        file.write(f"PS1='READY> '\nsource '{script['bash']}'\n")
    with open(os.path.join(home, ".zshrc"), "w") as file:
        file.write(f"PS1='READY> '\nautoload -Uz compinit && compinit -u\nsource '{script['zsh']}'\n")
    fish = f"function fish_prompt; echo -n 'READY> '; end; set -g fish_greeting; source '{script['fish']}'"
    return {
        "bash": ["bash", "--noprofile", "--rcfile", os.path.join(home, "bashrc"), "-i"],
        "zsh": ["zsh", "-i"],
        "fish": ["fish", "--no-config", "--init-command", fish, "-i"],
    }


class Terminal:
    """A shell on a terminal."""

    def __init__(self, argv, env, cwd):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, env)

    def read(self, seconds):
        """Takes what comes within some time."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data
        # Some shells ask the terminal what it is, and wait for an answer.
        if b"\x1b[c" in data or b"\x1b[0c" in data:
            os.write(self.fd, b"\x1b[?62;c")
        return bool(data)

    def wait_for(self, done, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if done():
                return True
            self.read(0.1)
        return done()

    def settle(self):
        """Waits until the shell has nothing more to say."""
        while self.read(0.3):
            pass

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def main():
    folder = tempfile.mkdtemp()
    failures = 0
    try:
        home, bin_dir, here, root = (os.path.join(folder, name) for name in ("home", "bin", "here", "root"))
        for path in (home, bin_dir, here):
            os.makedirs(path)
        here = os.path.realpath(here)
        for sid, name, text in CWD_SESSIONS:
            write_session(root, here, sid, name, text)
        write_session(os.path.join(here, "other root"), here, "s9", "far away", "elsewhere")
        calls = os.path.join(folder, "calls")
        command = os.path.join(bin_dir, "pi-sessions")
        with open(command, "w") as file:
            file.write(f'#!/bin/sh\n[ "$1" = complete ] && exec "{BINARY}" "$@"\nprintf "%s\\0" "$@" > "{calls}.new"\nmv "{calls}.new" "{calls}"\n')
        os.chmod(command, 0o755)
        env = {
            "PATH": bin_dir + ":" + os.environ["PATH"],
            "HOME": home,
            "ZDOTDIR": home,
            "TERM": "xterm",
            "LC_ALL": "C.UTF-8",
            "PI_SESSIONS_ROOT": root,
        }
        for shell, argv in shells(home, bin_dir).items():
            for typed, expect in CASES:
                terminal = Terminal(argv, env, here)
                if not terminal.wait_for(lambda: b"READY> " in terminal.seen):
                    print(f"FAILED {shell}: no prompt: {terminal.seen!r}")
                    failures += 1
                    terminal.close()
                    continue
                terminal.settle()
                for part in typed.split("\t")[:-1]:
                    os.write(terminal.fd, part.encode() + b"\t")
                    terminal.settle()
                os.write(terminal.fd, b"\r")
                terminal.wait_for(lambda: os.path.exists(calls), 5)
                got = None
                if os.path.exists(calls):
                    with open(calls, encoding="utf-8") as file:
                        got = file.read().split("\0")[:-1]
                    os.remove(calls)
                terminal.close()
                if got != expect or os.path.exists(os.path.join(here, "pwned")):
                    failures += 1
                    print(f"FAILED {shell}: {typed!r}: got {got!r}, expected {expect!r}; the terminal: {terminal.seen[-600:]!r}")
        print(f"{len(CASES)} lines in 3 shells, {failures} failures")
    finally:
        shutil.rmtree(folder)
    return 1 if failures else 0


sys.exit(main())
