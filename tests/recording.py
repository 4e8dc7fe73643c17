#!/usr/bin/env python3
"""The terminal recording of README.md: tests/recording.py record | svg light|dark | --write.

`record` types the session below into bash in a test bed (`make recording`) and writes docs/images/recording.cast, an
asciicast of version 2. The pictures are animated SVGs of that file: `make lint` compares them, and `--write` writes them.
The script sets all times, so a slow machine records the same session.
"""

import codecs
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from xml.sax.saxutils import escape

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from diagrams import IMAGES, MONO, THEMES, rectangle  # noqa: E402

CAST = IMAGES / "recording.cast"
COLUMNS, ROWS = 92, 18
TITLE = "kubectl mc merges the pods of three clusters, picks clusters, completes a pod and opens a shell in it"
KEY, ANSWER, READ, END = 0.07, 0.4, 2.2, 4.0


class Screen:
    """The screen of a terminal that understands only the sequences of bash, kubectl and the plugin."""

    SEQUENCE = re.compile(r"\x1b\[([?>]?)([\d;]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b[=>78]")

    def __init__(self):
        self.rows = [self.blank() for _ in range(ROWS)]
        self.y = self.x = 0
        self.style = ("text", False)
        self.is_cursor_shown = True

    @staticmethod
    def blank():
        return [(" ", ("text", False))] * COLUMNS

    def feed(self, text):
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = self.SEQUENCE.match(text, at)
                if not found:
                    raise ValueError(f"unknown sequence: {text[at:at + 12]!r}")
                if found[3]:
                    self.control(found[1], [int(n or 0) for n in found[2].split(";")], found[3])
                at = found.end()
            else:
                self.character(text[at])
                at += 1

    def character(self, c):
        if c == "\n":
            self.line_feed()
        elif c == "\r":
            self.x = 0
        elif c == "\b":
            self.x = max(0, self.x - 1)
        elif c == "\t":
            self.x = min(COLUMNS - 1, self.x // 8 * 8 + 8)
        elif c >= " ":
            if self.x == COLUMNS:
                self.x = 0
                self.line_feed()
            self.rows[self.y][self.x] = (c, self.style)
            self.x += 1

    def line_feed(self):
        if self.y == ROWS - 1:
            self.rows = self.rows[1:] + [self.blank()]
        else:
            self.y += 1

    def control(self, private, numbers, final):
        n = max(1, numbers[0])
        row = self.rows[self.y]
        match final:
            case "A":
                self.y = max(0, self.y - n)
            case "B":
                self.y = min(ROWS - 1, self.y + n)
            case "C":
                self.x = min(COLUMNS - 1, self.x + n)
            case "D":
                self.x = max(0, self.x - n)
            case "G":
                self.x = min(COLUMNS, n) - 1
            case "H":
                self.y = min(ROWS, n) - 1
                self.x = min(COLUMNS, max(1, numbers[1] if len(numbers) > 1 else 1)) - 1
            case "J":
                if numbers[0] == 0:
                    self.control("", [0], "K")
                for at in range(self.y + 1 if numbers[0] == 0 else 0, ROWS):
                    self.rows[at] = self.blank()
            case "K":
                self.rows[self.y] = (row[: self.x] + self.blank()[self.x :]) if numbers[0] == 0 else self.blank()
            case "P":
                self.rows[self.y] = row[: self.x] + row[self.x + n :] + self.blank()[:n]
            case "@":
                self.rows[self.y] = (row[: self.x] + self.blank()[:n] + row[self.x :])[:COLUMNS]
            case "m":
                for number in numbers:
                    self.set_style(number)
            case "h" | "l" if private:
                if numbers == [25]:
                    self.is_cursor_shown = final == "h"
            case "n" | "c" | "t":
                pass
            case _:
                raise ValueError(f"unknown control sequence: {private}{numbers}{final}")

    def set_style(self, number):
        color, is_bold = self.style
        colors = {31: "error", 32: "prompt", 34: "accent", 36: "accent", 90: "soft", 2: "soft", 7: "accent", 39: "text", 27: "text", 22: "text"}
        if number == 0:
            self.style = ("text", False)
        elif number == 1:
            self.style = (color, True)
        else:
            self.style = (colors.get(number, color), is_bold and number != 22)

    def spans(self, at):
        """A row as (column, text, style), without spaces. The cursor is a block."""
        row = list(self.rows[at])
        if self.is_cursor_shown and at == self.y and self.x < COLUMNS:
            row[self.x] = ("\u2588", ("soft", False))
        spans = []
        for column, (c, style) in enumerate(row):
            if c == " " and not (spans and spans[-1][2] == style):
                continue
            if spans and spans[-1][2] == style and spans[-1][0] + len(spans[-1][1]) == column:
                spans[-1] = (spans[-1][0], spans[-1][1] + c, style)
            elif c != " ":
                spans.append((column, c, style))
        return tuple((column, text.rstrip(), style) for column, text, style in spans)

    def text(self):
        return "\n".join("".join(c for c, _ in row).rstrip() for row in self.rows).rstrip()


def svg(colors):
    """The cast as SVG: each row is shown from the time it appears to the time it changes."""
    head, *events = [json.loads(line) for line in CAST.read_text().splitlines()]
    assert (head["width"], head["height"]) == (COLUMNS, ROWS), head
    screen, since, shown = Screen(), [0.0] * ROWS, [()] * ROWS
    total = events[-1][0] + END
    # The still picture shows the screen before it is cleared for the second time.
    clears = [at for at, (_, _, text) in enumerate(events) if "\x1b[2J" in text]
    still = events[clears[1] - 1][0] if len(clears) > 1 else events[-1][0]
    intervals = {}
    for when, _, text in [*events, [total, "o", None]]:
        if text is not None:
            screen.feed(text)
        for at in range(ROWS):
            spans = screen.spans(at) if text is not None else ()
            if spans != shown[at]:
                if shown[at]:
                    intervals.setdefault((since[at], when), []).append((at, shown[at]))
                since[at], shown[at] = when, spans
    width, height = COLUMNS * 7.8 + 36, ROWS * 19 + 28
    names, rules, groups = {}, [], []
    for (begin, end), rows in sorted(intervals.items()):
        name = names.setdefault((begin, end), f"k{len(names)}")
        hidden = "" if begin == 0 else "0%{visibility:hidden}"
        rules.append(
            f"@keyframes {name}{{{hidden}{begin / total:.3%}{{visibility:visible}}{end / total:.3%},to{{visibility:hidden}}}}"
        )
        kind = "f s" if begin <= still < end else "f"
        lines = "".join(line(at, spans) for at, spans in rows)
        groups.append(f'<g class="{kind}" style="animation-name:{name}">{lines}</g>')
    fills = "".join(f".{key}{{fill:{colors[key]}}}" for key in ["soft", "error", "prompt", "accent"])
    style = (
        f"text{{font-family:{MONO};font-size:13px;fill:{colors['text']};white-space:pre}}{fills}.b{{font-weight:600}}"
        f".f{{visibility:hidden}}.s{{visibility:visible}}@media (prefers-reduced-motion:no-preference){{"
        f".f{{animation-duration:{total:.2f}s;animation-timing-function:step-end;animation-iteration-count:infinite}}}}"
    )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
        f'role="img" aria-label="{escape(TITLE)}">',
        f"<title>{escape(TITLE)}</title>",
        f"<style>{style}",
        *rules,
        "</style>",
        rectangle(1, 1, round(width) - 2, height - 2, colors["screen"], colors["line"]),
        *groups,
        "</svg>",
    ]) + "\n"


def line(at, spans):
    y = 28 + 19 * at
    texts = []
    for column, words, (color, is_bold) in spans:
        names = [*([color] if color != "text" else []), *(["b"] if is_bold else [])]
        kind = f' class="{" ".join(names)}"' if names else ""
        texts.append(f'<text x="{18 + column * 7.8:.1f}" y="{y}" textLength="{len(words) * 7.8:.1f}"{kind}>{escape(words)}</text>')
    return "".join(texts)


class Session:
    """bash on a terminal. The output goes into the cast."""

    def __init__(self, environment, rc):
        self.screen, self.events, self.clock = Screen(), [], 0.0
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        process, self.terminal = pty.fork()
        if process == 0:
            os.execvpe("bash", ["bash", "--noprofile", "--rcfile", rc, "-i"], environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def read(self, is_done, quiet=0.15, limit=120):
        """Reads until the screen is as wanted and there is no more output. Returns the output."""
        text, end = "", time.monotonic() + limit
        while True:
            ready, _, _ = select.select([self.terminal], [], [], quiet)
            if ready:
                new = self.decoder.decode(os.read(self.terminal, 65536))
                self.screen.feed(new)
                text += new
            elif is_done():
                return text
            if time.monotonic() > end:
                raise TimeoutError(f"not shown in {limit} s, but:\n{self.screen.text()}")

    def add(self, text):
        if text:
            self.events.append([round(self.clock, 3), "o", text])

    def type(self, keys):
        """Types a text key by key, each with its echo."""
        for key in keys:
            os.write(self.terminal, key.encode())
            before = self.screen.text()
            self.add(self.read(lambda: self.screen.text() != before or key == " ", quiet=0.05))
            self.clock += KEY

    def press(self, key, shows, wait=ANSWER, read=READ):
        """Presses a key, and waits until the last line of the screen or a part of it is as wanted."""
        self.clock += KEY
        before = self.screen.text()
        os.write(self.terminal, key.encode())
        text = self.read(lambda: re.search(shows, self.screen.text()) and self.screen.text() != before)
        self.clock += wait
        self.add(text)
        self.clock += read

    def clear(self):
        self.press("\x0c", r"\A\$$", wait=0, read=0.4)


PROMPT = r"\n\$$"
PICKER = r"VERSION[^$]*m3"


def record():
    bed = json.loads(pathlib.Path(os.environ["TESTBED"], "bed.json").read_text())
    programs = pathlib.Path(__file__).resolve().parent.parent / "target/debug"
    with tempfile.TemporaryDirectory(prefix="kubectl-mc-recording.") as home:
        tools = pathlib.Path(home, "bin")
        tools.mkdir()
        for name in ["kubectl-mc", "kubectl_complete-mc"]:
            (tools / name).symlink_to(programs / "kubectl-mc")
        environment = {
            "HOME": home, "PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": os.environ["KUBECONFIG"],
            "TERM": "xterm-256color", "LANG": "C.UTF-8", "KUBECTL_MC_COMPLETION_TIMEOUT": "30s",
        }
        for name in ["m1", "m2", "m3"]:
            prepare(bed["members"][name])
        warm = "kubectl mc -C m1,m2,m3 get pods,deployments -n shop; kubectl __complete mc -C m1 exec -n shop web"
        subprocess.run(["bash", "-c", warm], env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rc = pathlib.Path(home, "rc")
        rc.write_text(
            "PS1='\\[\\e[1;32m\\]$\\[\\e[0m\\] '\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\n"
            "source /usr/share/bash-completion/bash_completion\nsource <(kubectl completion bash)\nclear\n"
        )
        session = Session(environment, str(rc))
        session.read(lambda: session.screen.text() == "$")
        session.screen = Screen()
        session.events = []
        session.clock = 0.0
        os.write(session.terminal, b"\x0c")
        session.add(session.read(lambda: session.screen.text() == "$"))
        session.clock = 0.8
        play(session)
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": TITLE, "env": {"SHELL": "/bin/bash", "TERM": "xterm-256color"}}
    CAST.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in [head, *session.events]))


def prepare(member):
    """Creates a namespace with a deployment on a member, and waits for its pod."""
    kubectl = ["kubectl", "--kubeconfig", member["kubeconfig"]]
    container = {"name": "web", "image": "testbed.local/busybox:1", "imagePullPolicy": "Never", "command": ["sleep", "86400"]}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}},
        },
    }
    subprocess.run([*kubectl, "create", "namespace", "shop"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*kubectl, "apply", "-f", "-"], input=json.dumps(deployment).encode(), check=True, stdout=subprocess.DEVNULL)
    wait = ["rollout", "status", "--namespace=shop", "deployment/web", "--timeout=180s"]
    subprocess.run([*kubectl, *wait], check=True, stdout=subprocess.DEVNULL)


def play(session):
    """Types the session: a merged table, the picker, a completion and a shell in a pod."""
    session.type("kubectl mc --all-clusters get pods -n shop")
    session.press("\r", r"CLUSTER[^$]*m3 [^$]*" + PROMPT)
    session.clear()
    session.type("kubectl mc get deployments -n shop")
    session.press("\r", PICKER)
    for key in [" ", "\x1b[B", "\x1b[B", " "]:
        session.press(key, PICKER, wait=0.2, read=0.6)
    session.press("\r", r"NAME[^$]*m3 [^$]*" + PROMPT)
    session.clear()
    session.type("kubectl mc -C m1 exec -it -n shop we")
    session.press("\t", r"exec -it -n shop web-\w+-\w+", read=0.8)
    session.type("-- sh")
    session.press("\r", r"~ #$", read=0.6)
    session.type("hostname")
    session.press("\r", r"\nweb-\w+-\w+\n[^$]*~ #$", read=1.2)
    session.press("\x04", PROMPT, read=0.6)


def main(arguments):
    match arguments:
        case ["record"]:
            record()
        case ["--write"]:
            for theme, colors in THEMES.items():
                (IMAGES / f"recording-{theme}.svg").write_text(svg(colors))
        case ["svg", theme] if theme in THEMES:
            sys.stdout.write(svg(THEMES[theme]))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
