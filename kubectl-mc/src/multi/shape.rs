//! The output format of a kubectl command on one cluster.

use super::document::Format;
use crate::argv::Scanned;
use crate::kubectl::verb;

/// The format of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputShape {
    Lines,
    Table,
    /// Lines, except that lines about local ports form a table.
    Ports,
    Document(Format),
}

/// The expected format of kubectl's output.
pub(super) fn shape(scanned: &Scanned) -> OutputShape {
    let verb = scanned.verb().unwrap_or_default();
    let output = scanned.value("output").map(|output| output.to_string_lossy().into_owned());
    if verb == "port-forward" {
        return OutputShape::Ports;
    }
    if verb::is_stream(scanned) || shows_content(scanned) {
        return OutputShape::Lines;
    }
    let tables = ["get", "top", "events", "api-resources"];
    let is_table = tables.iter().any(|table| verb == *table) && !scanned.has("no-headers");
    match output.as_deref() {
        Some("json") => OutputShape::Document(Format::Json),
        Some("yaml") => OutputShape::Document(Format::Yaml),
        None | Some("" | "wide") if is_table && scanned.value("raw").is_none() => OutputShape::Table,
        Some(columns) if is_table && columns.starts_with("custom-columns") => OutputShape::Table,
        _ => OutputShape::Lines,
    }
}

/// Whether kubectl sorts the output or prints it with a template, separately for each cluster if
/// several run it.
pub(super) fn is_of_one_cluster(scanned: &Scanned) -> bool {
    let output = scanned.value("output").unwrap_or_default().to_string_lossy();
    let is_template = output.contains("jsonpath") || output.contains("template");
    let is_template =
        is_template || output.starts_with("custom-columns") || scanned.value("template").is_some();
    let verb = scanned.verb().unwrap_or_default();
    scanned.verb_is_builtin()
        && (scanned.value("sort-by").is_some_and(|field| !field.is_empty()) || (verb == "get" && is_template))
}

/// Whether the output of this command is parsed on several clusters, and not only forwarded.
pub(crate) fn parses_output(scanned: &Scanned) -> bool {
    !matches!(shape(scanned), OutputShape::Lines | OutputShape::Ports)
}

/// Whether the output comes from a program or a file, and not from kubectl itself.
pub(super) fn shows_content(scanned: &Scanned) -> bool {
    let verb = scanned.verb().unwrap_or_default();
    !scanned.verb_is_builtin() || CONTENT.iter().any(|command| verb == *command)
}

const CONTENT: &[&str] = &["exec", "logs", "cp", "attach", "run", "debug", "diff"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_and_format_determine_output_shape() {
        for (line, expected) in [
            ("get pods", OutputShape::Table),
            ("get pods -owide", OutputShape::Table),
            ("get pods --no-headers", OutputShape::Lines),
            ("get pods -o name", OutputShape::Lines),
            ("get pods -w", OutputShape::Lines),
            ("get --raw /version", OutputShape::Lines),
            ("top nodes", OutputShape::Table),
            ("get pods -o custom-columns=A:.a", OutputShape::Table),
            ("get pods -o json", OutputShape::Document(Format::Json)),
            ("version --output=yaml", OutputShape::Document(Format::Yaml)),
            ("describe pod x", OutputShape::Lines),
            ("port-forward svc/x 80", OutputShape::Ports),
            ("exec x -o json -- ls", OutputShape::Lines),
            ("plugin-of-mine -o json", OutputShape::Lines),
        ] {
            let scanned = crate::argv::scan(line.split(' ').map(Into::into).collect());
            assert_eq!(shape(&scanned), expected, "{line}");
        }
    }
}
