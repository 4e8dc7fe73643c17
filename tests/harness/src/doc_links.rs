//! Checks that the documentation has no dangling reference: every relative link of a Markdown page
//! points to a file and a heading that exist, every path below `docs/` that a file of the
//! repository mentions exists, and so does every source file that a page mentions. The site's table
//! of contents has every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

#[test]
fn every_relative_link_leads_to_a_file_and_heading() {
    let mut dangling = Vec::new();
    let mut count = 0;
    for page in pages() {
        for target in relative_links(&read(&page)) {
            count += 1;
            if !leads_somewhere(&page, &target) {
                dangling.push(format!("{}: {target}", shown(&page)));
            }
        }
    }
    assert!(dangling.is_empty(), "dangling links:\n{}", dangling.join("\n"));
    assert!(count > 100, "only {count} links were found");
}

#[test]
fn every_page_is_linked_from_another_page() {
    let contents = root().join(CONTENTS);
    // The table of contents links to all pages, so its links say nothing about the others.
    let linked: BTreeSet<PathBuf> =
        pages().iter().filter(|page| **page != contents).flat_map(|page| linked_files(page)).collect();
    let unlinked = SHOWN_BY_GITHUB.into_iter().chain(["README.md", CONTENTS]);
    let unlinked: Vec<_> = unlinked.map(|path| root().join(path)).collect();
    let lonely: Vec<_> =
        pages().into_iter().filter(|page| !linked.contains(page) && !unlinked.contains(page)).collect();
    assert!(lonely.is_empty(), "no page links to {lonely:?}");
}

#[test]
fn contents_of_the_site_have_every_page_once() {
    let contents = root().join(CONTENTS);
    let listed = linked_files(&contents);
    let mut expected: Vec<_> =
        pages().into_iter().filter(|page| page.starts_with(root().join("docs"))).collect();
    expected
        .retain(|page| *page != contents && !SHOWN_BY_GITHUB.iter().any(|path| *page == root().join(path)));
    let missing: Vec<_> = expected.iter().filter(|page| !listed.contains(page)).collect();
    assert!(missing.is_empty(), "{CONTENTS} lacks {missing:?}");
    assert_eq!(listed.len(), expected.len(), "{CONTENTS} lists a page twice");
}

const CONTENTS: &str = "docs/SUMMARY.md";
const SHOWN_BY_GITHUB: [&str; 2] = ["docs/issue_template.md", "docs/pull_request_template.md"];

/// The files to which a page links, in the order of the links.
fn linked_files(page: &Path) -> Vec<PathBuf> {
    let targets = relative_links(&read(page)).into_iter();
    targets.map(|target| resolve(page, target.split('#').next().unwrap_or_default())).collect()
}

#[test]
fn every_documentation_path_in_the_repository_exists() {
    let mut dangling = Vec::new();
    for file in files(&root()) {
        // A binary file mentions no page.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for path in documentation_paths(&text) {
            if !root().join(&path).exists() {
                dangling.push(format!("{}: {path}", shown(&file)));
            }
        }
    }
    assert!(dangling.is_empty(), "dangling paths:\n{}", dangling.join("\n"));
}

#[test]
fn every_source_file_in_a_page_exists() {
    let mut dangling = Vec::new();
    let mut count = 0;
    for page in pages() {
        for path in source_files(&read(&page)) {
            count += 1;
            if !root().join(&path).is_file() {
                dangling.push(format!("{}: {path}", shown(&page)));
            }
        }
    }
    assert!(dangling.is_empty(), "dangling source files:\n{}", dangling.join("\n"));
    assert!(count > 100, "only {count} source files were found");
}

#[test]
fn source_files_are_spans_of_code_that_begin_at_the_root() {
    let page = "`tests/e2e/a.rs`, tests/b.rs, `c.rs`, `sidecar/d.rs --all`\n```sh\n`tests/e.rs`\n```\n`kubectl-mc/f.rs`";
    assert_eq!(source_files(page), ["tests/e2e/a.rs", "kubectl-mc/f.rs"]);
}

#[test]
fn headings_become_anchors_as_on_github() {
    let page = "# One: `two`\n\n## A & B\n\n```sh\n# no heading\n```\n\n## A & B\n### [Link](x.md), here\n";
    assert_eq!(anchors(page), BTreeSet::from(["one-two", "a--b", "a--b-1", "link-here"].map(str::to_owned)));
}

#[test]
fn links_in_code_are_ignored() {
    let page = "[a](b.md) `[c](d.md)`\n```text\n[e](f.md)\n```\n[g](https://h/i.md)\n<img src=\"j.svg\">";
    assert_eq!(relative_links(page), ["b.md", "j.svg"]);
}

fn leads_somewhere(page: &Path, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = resolve(page, path);
    file.exists() && anchor.is_none_or(|anchor| anchors(&read(&file)).contains(anchor))
}

/// The file that a link of a page points to. An empty path is the page itself.
fn resolve(page: &Path, path: &str) -> PathBuf {
    if path.is_empty() {
        return page.to_owned();
    }
    let mut resolved = PathBuf::new();
    for component in page.parent().unwrap().join(path).components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            other => resolved.push(other),
        }
    }
    resolved
}

/// The targets of links and images that have no scheme.
fn relative_links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let markdown = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let html = ["src=\"", "srcset=\"", "href=\""]
        .into_iter()
        .flat_map(|attribute| prose.split(attribute).skip(1).filter_map(|rest| rest.split_once('"')));
    let targets = markdown.chain(html).map(|(target, _)| target);
    targets
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

/// The anchors that GitHub makes of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in outside_of_code_blocks(page).lines() {
        let Some((marks, title)) = line.split_once(' ') else { continue };
        if marks.is_empty() || marks.chars().any(|mark| mark != '#') {
            continue;
        }
        // Of a link, only the text is part of the anchor.
        let text: String = title
            .split("](")
            .enumerate()
            .map(|(at, part)| if at == 0 { part } else { after_link(part) })
            .collect();
        let kept = text
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>();
        let anchor = kept.trim().replace(' ', "-");
        let unique = (0..).map(|n| if n == 0 { anchor.clone() } else { format!("{anchor}-{n}") });
        anchors.extend(unique.into_iter().find(|anchor| !anchors.contains(anchor)));
    }
    anchors
}

fn after_link(part: &str) -> &str {
    part.split_once(')').map_or("", |(_, rest)| rest)
}

/// A page without its blocks and spans of code.
fn prose(page: &str) -> String {
    outside_of_code_blocks(page).split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn outside_of_code_blocks(page: &str) -> String {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The Rust files that a page mentions in spans of code, by their path from the root of the
/// repository.
fn source_files(page: &str) -> Vec<String> {
    let text = outside_of_code_blocks(page);
    let spans = text.split('`').skip(1).step_by(2);
    let is_of_source = |span: &&str| {
        ["kubectl-mc/", "sidecar/", "tests/"].iter().any(|folder| span.starts_with(folder))
            && span.ends_with(".rs")
            && !span.contains([' ', '*', '{'])
    };
    spans.filter(is_of_source).map(str::to_owned).collect()
}

/// Every path below `docs/` that a text mentions, relative to the root of the repository.
fn documentation_paths(text: &str) -> Vec<String> {
    let of_path = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    let mut paths = Vec::new();
    for (at, _) in text.match_indices("docs/") {
        let before = text[..at].chars().next_back();
        // This is part of a URL, of another folder's name, or of a path that is relative to another
        // folder.
        if before.is_some_and(of_path) && !text[..at].ends_with("../") {
            continue;
        }
        let path: String = text[at..].chars().take_while(|c| of_path(*c)).collect();
        // A pattern such as docs/**/*.md does not refer to a single file.
        if !text[at + path.len()..].starts_with(['*', '{', '$']) {
            paths.push(path.trim_end_matches('.').to_owned());
        }
    }
    paths
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    pages.extend(
        files(&root().join("docs")).into_iter().filter(|file| file.extension().is_some_and(|e| e == "md")),
    );
    pages
}

/// The files below a folder, except for build results and git's own files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["target", ".git", "node_modules"].contains(&name.as_str()) {
                folders.push(path);
            } else if path.is_file() {
                files.push(path);
            }
        }
    }
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
