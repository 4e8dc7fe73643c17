//! Writes generated RBAC as CEL expressions, so that a policy can compare an object with it.

use serde_json::Value;

/// A value as a CEL expression. [`HOLE`] marks the place of the cluster's name.
pub(super) fn cel(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let parts: Vec<_> = text.split(HOLE).map(literal).collect();
            let expression = parts.join(" + variables.cluster + ");
            expression.replace("'' + ", "").replace(" + ''", "")
        }
        Value::Array(items) => format!("[{}]", items.iter().map(cel).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{}: {}", literal(key), cel(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A placeholder for the cluster's name. No cluster has this name.
pub(super) const HOLE: &str = "\0";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cluster_is_the_only_variable() {
        assert_eq!(cel(&json!("\0")), "variables.cluster");
        assert_eq!(cel(&json!("\0-impersonator")), "variables.cluster + '-impersonator'");
        assert_eq!(cel(&json!(["a'b", {"k": "x\0"}])), r"['a\'b', {'k': 'x' + variables.cluster}]");
    }
}
