//! The callers: with a token, with a certificate, with impersonation, and through the front proxy,
//! each with the identity that the member has to see.

use std::sync::Arc;

use anyhow::Result;
use harness::bed::host;
use harness::caller::Caller;
use harness::front_proxy::ClientCertificate;
use harness::wait::{SOON, eventually};
use serde_json::json;

/// The kind of login of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Token,
    Certificate,
    FrontProxyHttp1,
    FrontProxyHttp2,
}

impl Way {
    pub(super) const ALL: [Self; 4] =
        [Self::Token, Self::Certificate, Self::FrontProxyHttp1, Self::FrontProxyHttp2];
}

/// A caller.
pub(super) struct Who {
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// The identity headers of each request, in lower case.
    pub(super) says: Vec<(String, String)>,
    /// All identity headers that the member sees, sorted.
    pub(super) seen: Vec<(String, String)>,
    /// Whether the caller impersonates another user and has the right to do so.
    pub(super) impersonates: bool,
}

/// All callers, identified by their index.
#[derive(Clone)]
pub(super) struct Callers(Arc<Vec<(Way, Who)>>);

impl Callers {
    /// Makes the callers, and grants them access on the host.
    pub(super) fn welcome(name: &str) -> Result<Self> {
        let groups = [name.to_owned(), format!("system:serviceaccounts:{name}")];
        let subject = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let mut subjects: Vec<_> = groups.iter().map(|group| subject("Group", group)).collect();
        subjects.extend(["ulrike", "theo"].map(|user| subject("User", user)));
        let rbac = |kind: &str| format!("/apis/rbac.authorization.k8s.io/v1/{kind}/{name}");
        let host = host()?;
        let rule =
            json!({"apiGroups": ["proxy.kubectl-mc.dev"], "resources": ["clusters/proxy"], "verbs": ["*"]});
        host.apply(
            &rbac("clusterroles"),
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]}),
        )?;
        host.apply(
            &rbac("clusterrolebindings"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}, "subjects": subjects,
            }),
        )?;
        let attributes = json!({"group": "proxy.kubectl-mc.dev", "resource": "clusters", "subresource": "proxy", "name": "any", "verb": "create"});
        eventually("the callers are let in", SOON, || Ok(host.may("theo", &[], &attributes)?.then_some(())))?;
        let mut all = tokens()?;
        all.extend(certificates(name)?);
        for (number, who) in front_proxied(name).into_iter().enumerate() {
            let way = if number.is_multiple_of(2) { Way::FrontProxyHttp1 } else { Way::FrontProxyHttp2 };
            all.push((way, who));
        }
        Ok(Self(Arc::new(all)))
    }

    pub(super) fn get(&self, place: usize) -> Option<&Who> {
        self.0.get(place).map(|(_, who)| who)
    }

    /// The callers with this kind of login, and their indices.
    pub(super) fn by(&self, way: Way) -> Vec<(usize, &Who)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, (other, _))| *other == way)
            .map(|(at, (_, who))| (at, who))
            .collect()
    }
}

fn tokens() -> Result<Vec<(Way, Who)>> {
    let mut all = Vec::new();
    for user in ["ulrike", "theo"] {
        let caller = Caller::token(user)?;
        let token = caller.token.as_deref().unwrap_or_default();
        let mut seen = vec![("user", user.to_owned()), ("uid", format!("uid-{user}"))];
        seen.extend(caller.groups.iter().map(|group| ("group", group.clone())));
        let says = vec![("authorization".to_owned(), format!("Bearer {token}"))];
        all.push((
            Way::Token,
            Who { certificate: None, says, seen: headers("impersonate", &seen), impersonates: false },
        ));
    }
    Ok(all)
}

/// Callers with certificates, half of which impersonate other users.
fn certificates(name: &str) -> Result<Vec<(Way, Who)>> {
    let mut all = Vec::new();
    for number in 0..4 {
        let caller = Caller::certificate(&format!("{name}-certified-{number}"), &[name, "crew"])?;
        let seen = [
            ("user", caller.user.clone()),
            ("group", name.to_owned()),
            ("group", "crew".to_owned()),
            ("extra-authentication.kubernetes.io%2fcredential-id", caller.certificate_id()?),
        ];
        let seen = headers("impersonate", &seen);
        all.push((
            Way::Certificate,
            Who { certificate: caller.certificate, says: Vec::new(), seen, impersonates: false },
        ));
        let admin = Caller::certificate(&format!("{name}-admin-{number}"), &["system:masters"])?;
        let asked = headers("impersonate", &varied_identity(name, &format!("user-{number}"), number));
        let who =
            Who { certificate: admin.certificate, says: asked.clone(), seen: asked, impersonates: true };
        all.push((Way::Certificate, who));
    }
    Ok(all)
}

fn front_proxied(name: &str) -> Vec<Who> {
    let vouched = |said: &[(&str, String)], seen: &[(&str, String)]| Who {
        certificate: None,
        says: headers("x-remote", said),
        seen: headers("impersonate", seen),
        impersonates: false,
    };
    let mut all: Vec<Who> = (0..90)
        .map(|number| {
            let identity = varied_identity(name, &format!("jan\u{e9} {number}"), number);
            vouched(&identity, &identity)
        })
        .collect();
    for number in 0..2 {
        let mut crowd = vec![("user", format!("{name}-crowd-{number}")), ("group", name.to_owned())];
        crowd.extend((0..500).map(|group| ("group", format!("crowd-{number}-{group}"))));
        all.push(vouched(&crowd, &crowd));
        let user = ("user", format!("{name}-root-{number}"));
        all.push(vouched(
            &[user.clone(), ("group", "system:masters".to_owned())],
            &[user, ("group", "kubectl-mc:host-admins".to_owned())],
        ));
        let account = ("user", format!("system:serviceaccount:{name}:account-{number}"));
        let derived = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{name}")];
        let said = [
            account.clone(),
            ("group", derived[0].clone()),
            ("group", derived[1].clone()),
            ("uid", "1".to_owned()),
        ];
        all.push(vouched(&said, &[account]));
    }
    all
}

/// Makes varied identities: some have groups, a uid and extra.
fn varied_identity(name: &str, user: &str, number: usize) -> Vec<(&'static str, String)> {
    let mut parts = vec![("user", format!("{name} {user}")), ("group", name.to_owned())];
    parts.extend((0..number % 7).map(|group| ("group", format!("group {group}, of {number}"))));
    if number.is_multiple_of(2) {
        parts.push(("uid", format!("uid-{number}")));
    }
    if number.is_multiple_of(3) {
        parts.push(("extra-scopes.io%2fa%20b", format!("scope-{number}")));
        parts.push(("extra-scopes.io%2fa%20b", "second".to_owned()));
    }
    parts
}

fn headers(prefix: &str, parts: &[(&str, String)]) -> Vec<(String, String)> {
    let mut lines: Vec<_> =
        parts.iter().map(|(part, value)| (format!("{prefix}-{part}"), value.clone())).collect();
    lines.sort_unstable();
    lines
}
