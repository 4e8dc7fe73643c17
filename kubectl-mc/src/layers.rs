//! Tests the order of the plugin's modules: a module imports only those above it in the list, so imports have
//! no cycle.

use std::path::Path;

#[rustfmt::skip]
const LAYERS: &[&str] = &[
    "env", "executable", "exit", "server_text", "suggestion", "glob", "next_command", "argv", "cli", "json", "tabwriter",
    "yaml", "error", "printer", "panics", "child_output", "foreground", "log", "cache", "config_file", "progress", "confirm",
    "cluster", "chosen_cluster", "kubectl", "multi", "settings",
    "apply", "audit", "join", "hub_api", "install", "access", "authz", "doctor", "kubeconfig", "listen", "login", "completion", "commands", "main",
];

#[test]
fn no_module_imports_one_below_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut upward = Vec::new();
    let mut files = 0;
    visit(&source, &mut |file| {
        let path = file.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
        let module = path.split(['/', '.']).next().unwrap();
        if module == "layers" {
            return;
        }
        files += 1;
        let layer = place(module).unwrap_or_else(|| panic!("{module} is in no layer"));
        for imported in imports(&std::fs::read_to_string(file).unwrap()) {
            // Macros and lints are not modules.
            let Some(other) = place(&imported) else { continue };
            if other > layer {
                upward.push(format!("{path} imports {imported}"));
            }
        }
    });
    assert!(files > 100, "only {files} files were read");
    assert!(upward.is_empty(), "{upward:#?}");
}

/// The kube crate runs the programs of a kubeconfig, and reads it with other rules than client-go.
#[test]
fn fault_81_kube_gets_no_kubeconfig() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    visit(&source, &mut |file| {
        let text = std::fs::read_to_string(file).unwrap();
        let calls = [
            "Config::from_custom_kubeconfig(",
            "Config::from_kubeconfig(",
            "Config::infer(",
            "Kubeconfig::from_yaml(",
            "Kubeconfig::read",
            "Client::try_default",
        ];
        if calls.iter().any(|call| text.contains(call)) {
            files.push(file.strip_prefix(&source).unwrap().to_owned());
        }
    });
    files.retain(|file| !file.ends_with("layers.rs"));
    assert!(files.is_empty(), "{files:?}");
}

/// The modules that a file imports with `crate::`, outside comments and tests.
fn imports(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = code.flat_map(|line| line.split("crate::").skip(1).map(str::to_owned));
    names.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

fn place(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

fn visit(folder: &Path, to: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, to);
        } else if !path.ends_with("tests.rs") {
            to(&path);
        }
    }
}
