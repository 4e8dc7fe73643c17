//! Checks the order of the sidecar's modules: a module imports only modules before it in the list, so imports
//! have no cycle.

use std::path::Path;

#[rustfmt::skip]
const LAYERS: &[&str] = &[
    "causes", "io_hook", "counted_io", "json_values", "last_words", "locked", "log_level", "metrics", "panics", "random", "readiness", "retry", "tcp", "host_client", "token", "ttl_cache", "watch_backoff", "workers",
    "request::unescape", "request::query", "request::field_selector", "request::deadline", "request::audit_id",
    "request::headers", "request::protocol", "request::offer", "request::request_info", "request::metrics",
    "request::limits", "request::cutoff", "request::upload",
    "identity", "identity::attempts", "identity::review_metrics", "identity::x509", "identity::request_header", "identity::trust", "request::flow",
    "server::head_limit", "server::goaway", "server::tls", "server::places", "server::peer",
    "identity::authentication", "identity::authorization", "identity::impersonation", "identity::front_proxy_headers",
    "request::revalidation",
    "tunnel", "upstream",
    "audit", "spans", "request::body", "server::cors", "endpoints::authorize", "endpoints::admission", "endpoints::clusters", "endpoints::discovery",
    "hub_server",
    "members::waiter_limit", "members::cluster", "members::on_demand_access", "members::inventory",
    "request::agent_handshake", "request::error", "request::hold", "request::record", "request::guarded", "request::status", "request::redirect", "request::proxy", "request::upgrade",
    "request::services", "request::attach", "request::debug", "request::handler",
    "server::admin", "server::webhook", "server::listener", "server::shutdown",
    "controllers", "args", "config", "log", "app", "agent", "check", "main",
];

#[test]
fn no_module_imports_one_after_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut upward, mut files) = (Vec::new(), 0);
    visit(&source, &mut |file| {
        let path =
            file.strip_prefix(&source).unwrap().with_extension("").to_str().unwrap().replace('/', "::");
        if matches!(
            path.as_str(),
            "lib" | "layers" | "fake_host" | "server" | "request" | "members" | "endpoints"
        ) {
            return;
        }
        files += 1;
        let layer = place(&path).unwrap_or_else(|| panic!("{path} is in no layer"));
        for imported in imports(&std::fs::read_to_string(file).unwrap()) {
            let other = place(&imported).unwrap_or_else(|| panic!("{path}: {imported} is in no layer"));
            if other > layer {
                upward.push(format!("{path} imports {imported}"));
            }
        }
    });
    assert!(files > 100, "only {files} files were read");
    assert!(upward.is_empty(), "{upward:#?}");
}

/// The `crate::` paths in a file, outside of comments and tests.
fn imports(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//") && !line.contains("pub(in "));
    let paths = code.flat_map(|line| line.split("crate::").skip(1).map(str::to_owned));
    paths
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect())
        .collect()
}

/// The position in the list of the longest entry that is a prefix of the path.
fn place(path: &str) -> Option<usize> {
    let is_in =
        |layer: &str| path.strip_prefix(layer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let found = LAYERS.iter().enumerate().filter(|(_, layer)| is_in(layer));
    found.max_by_key(|(_, layer)| layer.len()).map(|(place, _)| place)
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
