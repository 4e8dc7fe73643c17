#!/usr/bin/env python3
"""Prints a picture of the documentation as SVG: tests/diagrams.py NAME light|dark.

The files in docs/images/ are this output: `make lint` compares them, and `tests/diagrams.py --write` writes all.
"""

import pathlib
import sys
from xml.sax.saxutils import escape

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images"
SANS = "-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"
THEMES = {
    "light": {
        "text": "#1f2328", "soft": "#59636e", "line": "#818b98", "box": "#ffffff", "frame": "#f6f8fa",
        "accent": "#0969da", "accent-box": "#ddf4ff", "screen": "#f6f8fa", "error": "#cf222e", "prompt": "#1a7f37",
    },
    "dark": {
        "text": "#e6edf3", "soft": "#9198a1", "line": "#6e7681", "box": "#0d1117", "frame": "#161b22",
        "accent": "#4493f8", "accent-box": "#121d2f", "screen": "#161b22", "error": "#ff7b72", "prompt": "#3fb950",
    },
}


def text(x, y, words, fill, size=13, weight="normal", anchor="start", font=SANS):
    return (
        f'<text x="{x}" y="{y}" fill="{fill}" font-family="{font}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" xml:space="preserve">{escape(words)}</text>'
    )


def rectangle(x, y, width, height, fill, stroke):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{stroke}"/>'


def arrow(x1, y1, x2, y2, color):
    return f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{color}" stroke-width="2" marker-end="url(#head)"/>'


def box(x, y, width, title, lines, c, accent=False):
    """A box with a title and one line of text for each step."""
    fill, stroke = (c["accent-box"], c["accent"]) if accent else (c["box"], c["line"])
    parts = [rectangle(x, y, width, 34 + 20 * len(lines), fill, stroke)]
    parts.append(text(x + 14, y + 22, title, c["text"], 14, "600"))
    parts += [text(x + 14, y + 43 + 20 * at, line, c["soft"]) for at, line in enumerate(lines)]
    return parts


def svg(width, height, title, parts, c):
    marker = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{c["accent"]}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", marker, *parts, "</svg>"]) + "\n"


def path(c):
    """The path of a request: caller, host, sidecar, members."""
    parts = [rectangle(236, 12, 320, 316, c["frame"], c["line"]), text(252, 36, "host cluster", c["soft"], 12, "600")]
    parts += box(12, 70, 172, "kubectl mc", ["--cluster=m1 get pods", "your login of the host,", "no other credential"], c)
    kube_apiserver = ["authenticates you", "RBAC: may you enter m1?", "(clusters/proxy)"]
    parts += box(256, 52, 280, "kube-apiserver", kube_apiserver, c)
    sidecar = ["authorizes again, cleans headers", "sets your identity (impersonation)", "streams exec, logs, port-forward"]
    parts += box(256, 212, 280, "mc-sidecar", sidecar, c, accent=True)
    member = ["RBAC: may you do this here?", "audit log: your name"]
    for at, name in enumerate(["member m1", "member m2", "member m3"]):
        parts += box(636, 34 + 102 * at, 232, name, member, c)
    parts.append(arrow(184, 117, 254, 99, c["accent"]))
    parts.append(arrow(396, 146, 396, 210, c["accent"]))
    parts.append(text(408, 182, "aggregated API", c["soft"], 12))
    for at in range(3):
        parts.append(arrow(536, 259, 634, 71 + 102 * at, c["accent"]))
    parts.append(text(652, 332, "Impersonate-User: you", c["soft"], 12, font=MONO))
    return svg(880, 344, "kubectl mc sends a request to the host, whose sidecar forwards it to a member as the caller", parts, c)


def screen(lines, width, title, c):
    """Commands and their output."""
    parts = [rectangle(1, 1, width - 2, 28 + 20 * len(lines), c["screen"], c["line"])]
    for at, line in enumerate(lines):
        y = 28 + 20 * at
        if line.startswith("$ "):
            parts.append(text(18, y, "$", c["prompt"], 13, "600", font=MONO))
            parts.append(text(34, y, line[2:], c["text"], 13, "600", font=MONO))
        else:
            failed = "error: " in line or " failed: " in line
            parts.append(text(18, y, line, c["error"] if failed else c["text"], font=MONO))
    return svg(width, 30 + 20 * len(lines), title, parts, c)


def quickstart(c):
    """The clusters of the quickstart, with the addresses at which they are reached."""
    parts = [rectangle(262, 12, 606, 276, c["frame"], c["line"])]
    parts.append(text(278, 36, "Docker's network “kind”", c["soft"], 12, "600"))
    parts += box(12, 96, 172, "your machine", ["kubectl mc", "your login of the host"], c)
    parts += box(282, 96, 232, "host-control-plane", ["kube-apiserver", "mc-sidecar, in a pod"], c, accent=True)
    for at, name in enumerate(["m1", "m2"]):
        parts += box(634, 60 + 116 * at, 214, f"{name}-control-plane", [f"member {name}", "kube-apiserver"], c)
    parts.append(arrow(184, 134, 280, 134, c["accent"]))
    parts.append(text(190, 126, "127.0.0.1", c["soft"], 12, font=MONO))
    for at in range(2):
        parts.append(arrow(514, 134, 632, 97 + 116 * at, c["accent"]))
        parts.append(text(634, 150 + 116 * at, "by its name, port 6443", c["soft"], 12))
    return svg(880, 300, "kubectl mc reaches the host on a port of your machine, and mc-sidecar the members by their names", parts, c)


def quickstart_text(begin, end=None):
    """Part of what the quickstart prints, without the empty lines between its commands."""
    whole = (IMAGES / "quickstart.txt").read_text()
    part = whole[whole.index(begin):]
    return [line for line in part[: part.index(end) if end else None].splitlines() if line]


def quickstart_session(c):
    lines = quickstart_text("$ kubectl mc clusters", "# Another user")
    return screen(lines, 560, "the quickstart lists two members and creates a deployment on both", c)


def quickstart_explain(c):
    lines = quickstart_text("$ kubectl mc access explain --as=jane --as-group=system:authenticated -C m1 delete pods")
    return screen(lines, 820, "access explain names each hop that refuses jane's request, and the command that would allow it", c)


PICTURES = {
    "path": path,
    "quickstart": quickstart,
    "quickstart-session": quickstart_session,
    "quickstart-explain": quickstart_explain,
}


def main(arguments):
    match arguments:
        case ["--write"]:
            for name, draw in PICTURES.items():
                for theme, colors in THEMES.items():
                    (IMAGES / f"{name}-{theme}.svg").write_text(draw(colors))
        case [name, theme] if name in PICTURES and theme in THEMES:
            sys.stdout.write(PICTURES[name](THEMES[theme]))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
