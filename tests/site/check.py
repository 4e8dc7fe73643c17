#!/usr/bin/env python3
"""Checks the built site: check.py FOLDER. Every link, picture and anchor within it exists, and the search knows each page."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(sys.argv[1]).resolve()
# mdBook writes these in addition to the pages in SUMMARY.md.
BESIDE = {"404.html", "print.html", "toc.html"}


class Page(HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.anchors |= {named[key] for key in ("id", "name") if named.get(key)}
        self.links += [named[key] for key in ("href", "src") if named.get(key)]


pages = {file: Page(file) for file in SITE.rglob("*.html")}
broken, count = [], 0
for file, page in pages.items():
    if file.name in BESIDE:
        continue
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        count += 1
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        if target.is_dir():
            target /= "index.html"
        anchor = unquote(parts.fragment)
        if not target.is_file() or (target in pages and anchor not in pages[target].anchors):
            broken.append(f"{file.relative_to(SITE)}: {link}")
index = "".join(file.read_text() for file in SITE.glob("searchindex*.js"))
for file in pages:
    name = str(file.relative_to(SITE))
    if file.name not in BESIDE and f'"{name}' not in index:
        broken.append(f"{name} cannot be found by the search")
if broken:
    sys.exit("site: broken links:\n" + "\n".join(sorted(set(broken))))
if count < 1000:
    sys.exit(f"site: only {count} links were found")
print(f"site: {len(pages)} pages, {count} links")
