//! Builds the user's entry for a standalone kubeconfig. It copies references to a credential, such as a
//! credential plugin or file paths, but no secret.

use serde_json::{Map, Value, json};

use crate::cluster::context::{ClusterContext, User};
use crate::error::{Failure, mc};
use crate::log::without_credential;

/// The `users` list of a standalone kubeconfig; empty if the host's context has no user.
pub(super) fn standalone(host: &ClusterContext) -> Result<Vec<Value>, Failure> {
    let User::Named(name) = &host.user else { return Ok(of_pod(host)) };
    let Some(name) = name else { return Ok(Vec::new()) };
    let entries = host.kubeconfig.auth_infos.iter();
    let entry = entries.filter(|entry| entry.name == *name).find_map(|entry| entry.auth_info.as_ref());
    // Without a user entry there is nothing to copy.
    let Some(Ok(Value::Object(mut user))) = entry.map(serde_json::to_value) else { return Ok(Vec::new()) };
    remove_empty(&mut user);
    if let Some(secret) = user.iter().find_map(|(key, value)| secret(key, value)) {
        let host = host.context_name();
        return Err(Failure::usage(format!(
            "user {name:?} of {host} holds a secret ({secret}), which is not copied"
        ))
        .with_hint(
            mc("kubeconfig > members.yaml")
                .after("without --standalone the contexts name the user of your kubeconfig")
                .and("export KUBECONFIG=~/.kube/config:members.yaml"),
        ));
    }
    Ok(vec![json!({"name": name, "user": user})])
}

/// The user for a pod's service account, whose token stays in its file.
pub(super) fn of_pod(host: &ClusterContext) -> Vec<Value> {
    let users = crate::kubectl::overlay::users(host);
    users.iter().filter_map(|user| serde_json::to_value(user).ok()).collect()
}

/// Refuses a host whose URLs contain a password, which would be in the output.
pub(super) fn check_urls(host: &ClusterContext) -> Result<(), Failure> {
    let proxy = host.cluster.proxy_url.as_deref();
    let urls = [("server", Some(host.server.as_str())), ("proxy-url", proxy)];
    match urls.iter().find(|(_, url)| url.is_some_and(|url| without_credential(url) != url)) {
        Some((field, _)) => {
            let host = host.context_name();
            Err(Failure::usage(format!("the {field} of {host} holds a password, which is not copied"))
                .with_hint(mc("kubeconfig --merge").after("your own kubeconfig has it already")))
        }
        None => Ok(()),
    }
}

/// The secret in a field of a user's entry. Unknown fields count as secrets.
fn secret(key: &str, value: &Value) -> Option<String> {
    match key {
        "exec" => exec_secret(value),
        "tokenFile"
        | "client-certificate"
        | "client-certificate-data"
        | "client-key"
        | "as"
        | "as-uid"
        | "as-groups"
        | "as-user-extra"
        | "extensions" => None,
        _ => Some(key.to_owned()),
    }
}

/// A secret among the arguments and variables of a credential plugin, detected by their names.
fn exec_secret(exec: &Value) -> Option<String> {
    let sounds_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["secret", "password"].iter().any(|word| name.contains(word))
    };
    let variables = exec.get("env").and_then(Value::as_array).into_iter().flatten();
    let names = variables.filter_map(|variable| variable.get("name")?.as_str());
    let is_secret = |name: &&str| sounds_secret(name) || name.to_ascii_lowercase().ends_with("token");
    if let Some(name) = names.into_iter().find(is_secret) {
        return Some(format!("exec.env {name}"));
    }
    let arguments = exec.get("args").and_then(Value::as_array).into_iter().flatten();
    let flags = arguments.filter_map(|argument| argument.as_str()?.split('=').next());
    let flag = flags.filter(|flag| flag.starts_with('-')).find(|flag| sounds_secret(flag))?;
    Some(format!("exec.args {flag}"))
}

/// Removes empty fields recursively.
fn remove_empty(fields: &mut Map<String, Value>) {
    fields.values_mut().filter_map(Value::as_object_mut).for_each(remove_empty);
    fields.retain(|_, value| !is_empty(value));
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inline_credentials_are_secrets() {
        for (key, value, expected) in [
            ("tokenFile", json!("/t"), None),
            ("client-key", json!("/k"), None),
            ("token", json!("t"), Some("token")),
            ("password", json!("p"), Some("password")),
            ("client-key-data", json!("a2V5"), Some("client-key-data")),
            ("auth-provider", json!({"name": "oidc"}), Some("auth-provider")),
            ("exec", json!({"command": "aws", "args": ["eks", "get-token", "--cluster-name", "x"]}), None),
            ("exec", json!({"command": "k", "args": ["--oidc-client-id=a"], "env": null}), None),
            (
                "exec",
                json!({"command": "k", "args": ["--oidc-client-secret=a"]}),
                Some("exec.args --oidc-client-secret"),
            ),
            ("exec", json!({"env": [{"name": "AWS_PROFILE", "value": "x"}]}), None),
            (
                "exec",
                json!({"env": [{"name": "AWS_SESSION_TOKEN", "value": "x"}]}),
                Some("exec.env AWS_SESSION_TOKEN"),
            ),
            (
                "exec",
                json!({"env": [{"name": "CLIENT_SECRET", "value": "x"}]}),
                Some("exec.env CLIENT_SECRET"),
            ),
        ] {
            assert_eq!(secret(key, &value).as_deref(), expected, "{key} {value}");
        }
    }
}
