//! Converts the JSON of a kubeconfig to kube's types by the rules of client-go
//! (`tools/clientcmd/api/v1`), wherever the plugin reads a kubeconfig. No other code does this:
//! kube's own deserialization refuses files that kubectl reads.
//!
//! The result is normalized: a field without a value is absent, bytes are base64 without line breaks.

use std::collections::{HashMap, HashSet};

use kube::config::{
    AuthInfo, AuthProviderConfig, Cluster, Context, ExecConfig, ExecInteractiveMode, Kubeconfig,
    NamedAuthInfo, NamedCluster, NamedContext, NamedExtension,
};
use serde_json::Value;

use super::fields::Fields;

/// The kubeconfig of a document.
pub(super) fn kubeconfig(document: Value) -> Result<Kubeconfig, String> {
    let mut file = Fields::of(document, "")?;
    let kind = file.text("kind")?.unwrap_or_else(|| "Config".to_owned());
    let version = file.text("apiVersion")?.unwrap_or_else(|| "v1".to_owned());
    if (kind.as_str(), version.as_str()) != ("Config", "v1") {
        return Err(format!("no kind {kind:?} is registered for version {version:?}"));
    }
    if let Some(mut preferences) = file.object("preferences")? {
        preferences.flag("colors")?;
        extensions(&mut preferences)?;
    }
    let config = Kubeconfig {
        clusters: named(&mut file, "clusters", "cluster", |name, cluster| {
            Ok(NamedCluster { name, cluster: Some(self::cluster(cluster)?), ..NamedCluster::default() })
        })?,
        auth_infos: named(&mut file, "users", "user", |name, user| {
            Ok(NamedAuthInfo { name, auth_info: Some(self::user(user)?), ..NamedAuthInfo::default() })
        })?,
        contexts: named(&mut file, "contexts", "context", |name, context| {
            Ok(NamedContext { name, context: Some(self::context(context)?), ..NamedContext::default() })
        })?,
        current_context: file.text("current-context")?,
        extensions: extensions(&mut file)?,
        ..Kubeconfig::default()
    };
    Ok(Kubeconfig { other: file.rest(), ..config })
}

/// The entries of a list, by name. A null entry has no name.
fn named<T>(
    file: &mut Fields,
    list: &str,
    field: &str,
    entry: impl Fn(String, Fields) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let mut names = HashSet::new();
    let mut entries = Vec::new();
    for (item, place) in file.list(list)?.unwrap_or_default() {
        let mut item = Fields::of(item, place)?;
        let name = item.text("name")?.unwrap_or_default();
        let place = item.place(field);
        entries.push(entry(name.clone(), Fields::of(item.value(field).unwrap_or_default(), place)?)?);
        if !names.insert(name.clone()) {
            return Err(format!("duplicate name {name:?} in {list}"));
        }
    }
    Ok(entries)
}

fn cluster(mut fields: Fields) -> Result<Cluster, String> {
    let cluster = Cluster {
        server: fields.text("server")?,
        insecure_skip_tls_verify: fields.flag("insecure-skip-tls-verify")?,
        certificate_authority: fields.text("certificate-authority")?,
        certificate_authority_data: fields.data("certificate-authority-data")?,
        proxy_url: fields.text("proxy-url")?,
        disable_compression: fields.flag("disable-compression")?,
        tls_server_name: fields.text("tls-server-name")?,
        extensions: extensions(&mut fields)?,
        ..Cluster::default()
    };
    Ok(Cluster { other: fields.rest(), ..cluster })
}

fn user(mut fields: Fields) -> Result<AuthInfo, String> {
    let user = AuthInfo {
        username: fields.text("username")?,
        password: fields.text("password")?.map(Into::into),
        token: fields.text("token")?.map(Into::into),
        token_file: fields.text("tokenFile")?,
        client_certificate: fields.text("client-certificate")?,
        client_certificate_data: fields.data("client-certificate-data")?,
        client_key: fields.text("client-key")?,
        client_key_data: fields.data("client-key-data")?.map(Into::into),
        impersonate: fields.text("as")?,
        impersonate_uid: fields.text("as-uid")?,
        impersonate_groups: fields.texts("as-groups")?.filter(|groups| !groups.is_empty()),
        impersonate_user_extra: fields
            .object("as-user-extra")?
            .map(Fields::into_lists)
            .transpose()?
            .filter(|extra: &HashMap<_, _>| !extra.is_empty()),
        auth_provider: fields.object("auth-provider")?.map(auth_provider).transpose()?,
        exec: fields.object("exec")?.map(exec).transpose()?,
        extensions: extensions(&mut fields)?,
        ..AuthInfo::default()
    };
    Ok(AuthInfo { other: fields.rest(), ..user })
}

fn auth_provider(mut fields: Fields) -> Result<AuthProviderConfig, String> {
    let provider = AuthProviderConfig {
        name: fields.text("name")?.unwrap_or_default(),
        config: fields.object("config")?.map(Fields::into_texts).transpose()?.unwrap_or_default(),
        ..AuthProviderConfig::default()
    };
    Ok(AuthProviderConfig { other: fields.rest(), ..provider })
}

fn exec(mut fields: Fields) -> Result<ExecConfig, String> {
    let mode = fields.text("interactiveMode")?;
    let variables = fields.list("env")?.unwrap_or_default().into_iter();
    let variables = variables.map(|(item, place)| {
        let mut item = Fields::of(item, place)?;
        let mut variable = HashMap::new();
        for key in ["name", "value"] {
            variable.insert(key.to_owned(), item.text(key)?.unwrap_or_default());
        }
        Ok(variable)
    });
    let variables = variables.collect::<Result<Vec<_>, String>>()?;
    let exec = ExecConfig {
        api_version: fields.text("apiVersion")?,
        command: fields.text("command")?,
        args: fields.texts("args")?,
        env: (!variables.is_empty()).then_some(variables),
        install_hint: fields.text("installHint")?,
        interactive_mode: match mode.as_deref() {
            Some("Never") => Some(ExecInteractiveMode::Never),
            Some("IfAvailable") => Some(ExecInteractiveMode::IfAvailable),
            Some("Always") => Some(ExecInteractiveMode::Always),
            _ => None,
        },
        provide_cluster_info: fields.flag("provideClusterInfo")?.unwrap_or_default(),
        ..ExecConfig::default()
    };
    let mut other = fields.rest();
    // An unknown mode is an error only when the user is used.
    if let Some(mode) = mode.filter(|_| exec.interactive_mode.is_none()) {
        other.insert(INTERACTIVE_MODE.to_owned(), mode.into());
    }
    Ok(ExecConfig { other, ..exec })
}

fn context(mut fields: Fields) -> Result<Context, String> {
    let context = Context {
        cluster: fields.text("cluster")?.unwrap_or_default(),
        user: fields.text("user")?,
        namespace: fields.text("namespace")?,
        extensions: extensions(&mut fields)?,
        ..Context::default()
    };
    Ok(Context { other: fields.rest(), ..context })
}

fn extensions(fields: &mut Fields) -> Result<Option<Vec<NamedExtension>>, String> {
    let place = fields.place("extensions");
    let Some(list) = fields.list("extensions")? else { return Ok(None) };
    let mut bodies = HashSet::new();
    let mut entries: Vec<NamedExtension> = Vec::new();
    for (item, at) in list {
        let mut item = Fields::of(item, at)?;
        let name = item.text("name")?.unwrap_or_default();
        // As in client-go, an entry without a body may be repeated.
        if bodies.contains(&name) {
            return Err(format!("duplicate name {name:?} in {place}"));
        }
        let extension = item.value("extension").unwrap_or_default();
        if !extension.is_null() {
            bodies.insert(name.clone());
        }
        entries.retain(|entry| entry.name != name);
        entries.push(NamedExtension { name, extension });
    }
    Ok((!entries.is_empty()).then_some(entries))
}

/// The field of a mode that kube's type cannot hold.
pub(crate) const INTERACTIVE_MODE: &str = "interactiveMode";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::context::document;

    fn read(text: &str) -> Result<Kubeconfig, String> {
        kubeconfig(document::parse(text)?)
    }

    #[test]
    fn entries_without_content_are_read() {
        let read = read(
            "clusters: [null]\ncontexts: [{name: a}, {context: {user: u}}, {name: b, context: {cluster: null}}]\n\
             users:\n- {name: p, user: {auth-provider: {name: oidc, config: null}}}\n\
             - {name: v, user: {auth-provider: {name: oidc, config: {id-token: null}}}}\n\
             - {name: e, user: {exec: {env: [{name: A, value: null}], provideClusterInfo: null, interactiveMode: Odd}}}\n\
             - {name: x, user: {extensions: [{name: a}], tokenFile: ''}}\n- {name: ~, user: ~}\n",
        )
        .unwrap();
        assert_eq!(read.clusters[0].name, "");
        let contexts: Vec<_> = read.contexts.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(contexts, ["a", "", "b"]);
        let user = |index: usize| read.auth_infos[index].auth_info.clone().unwrap();
        assert!(user(0).auth_provider.unwrap().config.is_empty());
        assert_eq!(user(1).auth_provider.unwrap().config["id-token"], "");
        let exec = user(2).exec.unwrap();
        assert_eq!(exec.env.unwrap()[0]["value"], "");
        assert_eq!(exec.other[INTERACTIVE_MODE], json!("Odd"));
        assert!(user(3).token_file.is_none());
        assert_eq!(read.auth_infos[4].name, "");
    }

    #[test]
    fn errors_name_the_field_and_not_its_value() {
        for (text, expected) in [
            (
                "users: [{name: a, user: {token: 12345}}]",
                "users[0].user.token is a number and not a text: quote it",
            ),
            ("users: [{name: a}, {name: a}]", "duplicate name \"a\" in users"),
            (
                "clusters: [{name: a, cluster: {certificate-authority-data: '*'}}]",
                "clusters[0].cluster.certificate-authority-data is no base64",
            ),
            ("kind: Secret", "no kind \"Secret\" is registered for version \"v1\""),
            ("contexts: {}", "contexts is a map and not a list"),
            ("- a", "the file is a list and not a map"),
            (
                "users: [{name: a, user: {exec: {args: [on]}}}]",
                "users[0].user.exec.args[0] is a boolean and not a text: quote it",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn data_may_have_line_breaks() {
        let read =
            read("clusters: [{name: a, cluster: {certificate-authority-data: \"QUJD\\r\\nREVG\"}}]").unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("QUJDREVG"));
    }
}
