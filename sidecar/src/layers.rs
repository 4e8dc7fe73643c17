//! Checks the order of the layers, which are the folders of `lib.rs`: a module imports only from its own layer and
//! from those above it in this list, so imports between layers have no cycle.

use std::path::Path;

const LAYERS: &[&str] = &[
    "base",
    "observe",
    "host",
    "head",
    "limits",
    "connection",
    "identity",
    "telemetry",
    "outbound",
    "endpoints",
    "members",
    "fleet",
    "request",
    "server",
    "controllers",
    "programs",
];

#[test]
fn no_module_imports_from_a_layer_below_its_own() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut downward, mut files) = (Vec::new(), 0);
    visit(&source, &mut |file| {
        let path =
            file.strip_prefix(&source).unwrap().with_extension("").to_str().unwrap().replace('/', "::");
        if matches!(path.as_str(), "lib" | "main" | "layers" | "layers::cycles") {
            return;
        }
        files += 1;
        let layer = place(&path).unwrap_or_else(|| panic!("{path} is in no layer"));
        for imported in imports(&std::fs::read_to_string(file).unwrap()) {
            // What `lib.rs` exports has a place in a layer.
            let imported = if imported == "Error" { "request".to_owned() } else { imported };
            let other = place(&imported).unwrap_or_else(|| panic!("{path}: {imported} is in no layer"));
            if other > layer {
                downward.push(format!("{path} imports {imported}"));
            }
        }
    });
    assert!(files > 100, "only {files} files were read");
    assert!(downward.is_empty(), "{downward:#?}");
}

#[test]
fn folders_are_those_of_the_list() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries: Vec<_> = std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path()).collect();
    // A file and the folder beside it are one module.
    let modules: std::collections::BTreeSet<_> =
        entries.iter().map(|entry| entry.file_stem().unwrap()).collect();
    assert!(modules.len() <= 20, "{} modules", modules.len());
    let folders = entries.iter().filter(|path| path.is_dir() && !path.ends_with("layers"));
    let mut folders: Vec<_> = folders.map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    folders.sort_unstable();
    let mut layers = LAYERS.to_vec();
    layers.sort_unstable();
    assert_eq!(folders, layers);
}

/// The `crate::` paths in a file, outside of comments and tests.
fn imports(text: &str) -> Vec<String> {
    let paths = code(text).flat_map(|line| line.split("crate::").skip(1).map(str::to_owned));
    paths
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect())
        .collect()
}

/// The lines of a file, without comments and tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.contains("pub(in "))
}

/// The position in the list of the first segment of a path.
fn place(path: &str) -> Option<usize> {
    let first = path.split("::").next().unwrap_or_default();
    LAYERS.iter().position(|layer| *layer == first)
}

fn visit(folder: &Path, to: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                visit(&path, to);
            }
        } else if !path.ends_with("tests.rs") {
            to(&path);
        }
    }
}
