#!/usr/bin/env python3
"""A preprocessor of mdBook: links out of docs/ become links to the repository, and links to a README.md become links to
the index of its folder, which is what mdBook makes of it."""

import json
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = re.search(r'^repository = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
# The text and the target of a link. A span of code is not a link.
LINK = re.compile(r"(`+[^`]*`+)|(\]\()([^)\s]+)(\))")


def mend(page, text):
    """The text of a page. Its path is relative to docs/."""

    def link(match):
        code, before, target, after = match.groups()
        if code or "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
        # Pages of the site, and pictures and other files of docs/, which mdBook copies.
        if path.startswith("docs/"):
            return before + re.sub(r"README\.md(?=#|$)", "index.md", target) + after
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{before}{REPOSITORY}/{kind}/main/{path}{'#' + anchor if anchor else ''}{after}"

    blocks = re.split(r"(^ *```.*?^ *```[^\n]*$)", text, flags=re.M | re.S)
    return "".join(block if at % 2 else LINK.sub(link, block) for at, block in enumerate(blocks))


def walk(items):
    for item in items:
        if chapter := isinstance(item, dict) and item.get("Chapter"):
            if chapter.get("path"):
                chapter["content"] = mend(chapter["path"], chapter["content"])
            walk(chapter["sub_items"])


if len(sys.argv) > 1:
    # mdBook asks whether a renderer is supported: all are.
    sys.exit(0)
_, book = json.load(sys.stdin)
walk(book["items"])
json.dump(book, sys.stdout)
