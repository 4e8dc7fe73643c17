//! The flags of kubectl's template formats. A `custom-columns` table gets the CLUSTER column first,
//! like every table of several clusters.

use std::ffi::OsString;
use std::fs;

use kubectl_mc_api::names;

use crate::cache::RunFolder;
use crate::error::Failure;
use crate::multi::direct::kubectl_flags::Words;

/// A template format and its flags.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::multi::direct) struct Template {
    /// The value of `--output`.
    output: Option<String>,
    /// The flags that are passed to kubectl unchanged.
    flags: Vec<String>,
}

impl Template {
    /// The template of a command; `None` if it has none.
    pub(in crate::multi::direct::get) fn read(words: &Words<'_>) -> Option<Self> {
        let output = words.text("output");
        let template = words.text("template");
        let is_template = match &output {
            Some(output) => FORMATS.contains(&output.split('=').next().unwrap_or_default()),
            // As in kubectl, a template without a format is a Go template.
            None => template.is_some(),
        };
        let flag = |name: &str, value: String| format!("--{name}={value}");
        let mut flags: Vec<_> = template.map(|template| flag("template", template)).into_iter().collect();
        for switch in ["allow-missing-template-keys", "no-headers", "ignore-not-found"] {
            if words.is_given(switch) {
                flags.push(flag(switch, words.is_on(switch).to_string()));
            }
        }
        is_template.then_some(Self { output, flags })
    }

    /// The flags for kubectl.
    pub(super) fn flags(&self, folder: &RunFolder) -> Result<Vec<OsString>, Failure> {
        let mut flags: Vec<OsString> = self.flags.iter().map(OsString::from).collect();
        let Some(output) = &self.output else { return Ok(flags) };
        let mut output = output.clone();
        if let Some(columns) = output.strip_prefix(COLUMNS).filter(|columns| !columns.is_empty()) {
            output = format!("{COLUMNS}CLUSTER:{},{columns}", cluster_path());
        } else if let Some(path) = output.strip_prefix(COLUMNS_FILE)
            // kubectl reports a file that cannot be read.
            && let Ok(text) = fs::read_to_string(path)
        {
            let path = folder.write("columns", with_cluster(&text).as_bytes())?;
            output = format!("{COLUMNS_FILE}{}", path.display());
        }
        flags.push(format!("--output={output}").into());
        Ok(flags)
    }
}

/// A file of `custom-columns-file`: a line of column names and a line of their paths.
fn with_cluster(text: &str) -> String {
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default();
    let (names, paths) = (line(), line());
    if names.trim().is_empty() || paths.trim().is_empty() {
        return text.to_owned();
    }
    let rest: String = lines.map(|line| format!("{line}\n")).collect();
    format!("CLUSTER {names}\n{} {paths}\n{rest}", cluster_path())
}

/// The path of the annotation with the cluster.
fn cluster_path() -> String {
    format!(".metadata.annotations.{}", names::CLUSTER.replace('.', "\\."))
}

const COLUMNS: &str = "custom-columns=";
const COLUMNS_FILE: &str = "custom-columns-file=";
/// The formats with a template in kubectl.
#[rustfmt::skip]
const FORMATS: &[&str] = &[
    "jsonpath", "jsonpath-as-json", "jsonpath-file", "custom-columns", "custom-columns-file", "go-template",
    "go-template-file", "template", "templatefile",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_file_get_the_cluster_first() {
        assert_eq!(
            with_cluster("NAME   A\n.metadata.name .a\nmore"),
            "CLUSTER NAME   A\n.metadata.annotations.fleet\\.kubectl-mc\\.dev/cluster .metadata.name .a\nmore\n"
        );
        assert_eq!(with_cluster("NAME"), "NAME");
    }
}
