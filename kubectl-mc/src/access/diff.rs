//! Implements `kubectl mc access diff`: the rights that the access controller would add and remove on a
//! member, each with the binding on the host that causes it. The controller uses the same code.

use std::collections::BTreeSet;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kubectl_mc_api::access::{Actual, Because, Difference, Impersonator, Index, MemberRules, Policy};
use kubectl_mc_api::names::{MANAGER, NAMESPACE};
use kubectl_mc_api::{ClusterName, MemberCluster, Origin, path};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::rules::Rules;
use super::{impersonator, through};
use crate::cluster::connection::Connection;
use crate::cluster::fields::into_items;
use crate::env::Env;
use crate::error::{Context, Failure, list_clusters};
use crate::exit::ExitStatus;
use crate::join::survey;
use crate::printer::Printer;
use crate::server_text::ServerText;

pub(super) async fn run(
    cluster: &ClusterName,
    host: &Connection,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let registered = host.get(&path::member_cluster(cluster)).await?;
    let registered = registered.ok_or_else(|| {
        Failure::new(format!("no cluster {cluster} is registered on the host"))
            .with_hint(list_clusters())
            .with_status(ExitStatus::NoSuchCluster)
    })?;
    let registered: MemberCluster = parse(registered, "MemberCluster")?;
    let origin = Origin::of(&registered);
    if let Some(why) = kept_by_hub(&registered) {
        let failure = Failure::new(format!("there is nothing to compare on {cluster}: {why}"));
        return Err(match origin {
            Origin::Karmada => failure
                .with_hint("docs/how-to/karmada.md explains who keeps the rights on members of Karmada"),
            _ => failure,
        });
    }
    let impersonator = impersonator::of(host, cluster, origin).await?.unwrap_or_default();
    let member = through::member(&host.cluster, cluster, env).await?;
    let reader = Reader { member: &member, host, cluster };

    let index = index(host, origin).await?;
    let namespace = survey::namespace(host).await?;
    let learnt = host
        .get(&format!("/api/v1/namespaces/{namespace}/configmaps/{}", cluster.learnt_config_map()))
        .await?;
    let learnt = learnt.map(|map| map["data"].clone()).unwrap_or_default();
    // Ignores entries that do not parse, as the controller does.
    let learnt = learnt
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(_, text)| serde_json::from_str(text.as_str()?).ok());
    let learnt: Vec<_> = learnt.collect();
    let policy = Policy::parse(&match reader
        .one(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{MANAGER}"))
        .await?
    {
        Some(map) => parse(map["data"].clone(), "ConfigMap").unwrap_or_default(),
        None => Default::default(),
    });
    let shown = Rules::of(host).await?;
    let rules = MemberRules::new(
        &shown.admin_groups,
        &registered.spec.impersonation.clone().unwrap_or_default(),
        &policy,
        index.entitled(cluster),
        &learnt,
    );
    let difference = Difference::of(&rules, &impersonator, &reader.actual(&impersonator).await?);

    for (right, reasons) in &difference.missing {
        printer.out_line(&format!("+ {right}{}", because(reasons)));
    }
    for right in &difference.surplus {
        printer.out_line(&format!("- {right}: no subject on the host is entitled to it"));
    }
    for (subject, left_out) in &rules.left_out {
        printer.note_line(&format!("left out: {subject}: {}{}", left_out.why, because(&left_out.because)));
    }
    if let Some(note) = shown.note() {
        printer.note(note);
    }
    if difference.is_none() {
        printer.note_line(&format!("{cluster} has exactly these rights: {}", rules.summary()));
        return Ok(ExitStatus::Success);
    }
    Ok(ExitStatus::Failed)
}

/// The message of the condition if a hub, and not the access controller, maintains the rights on
/// its member.
fn kept_by_hub(member: &MemberCluster) -> Option<ServerText> {
    let mut conditions = member.status.iter().flat_map(|status| &status.conditions);
    let is_kept =
        |condition: &&Condition| condition.type_ == "AuthSynced" && condition.reason.starts_with("KeptBy");
    conditions.find(is_kept).map(|condition| ServerText::from(condition.message.as_str()))
}

/// The subjects with the right to the proxy of each member of an inventory, by the host's RBAC.
async fn index(host: &Connection, origin: Origin) -> Result<Index, Failure> {
    let mut index = Index::of(origin);
    for role in objects(host.get(&format!("/apis/{RBAC}/clusterroles")).await?) {
        index.role(&parse(role, "ClusterRole")?);
    }
    for binding in objects(host.get(&format!("/apis/{RBAC}/clusterrolebindings")).await?) {
        index.binding(&parse(binding, "ClusterRoleBinding")?);
    }
    Ok(index)
}

/// Reads the member through the caller's proxy path.
struct Reader<'a> {
    member: &'a Connection,
    host: &'a Connection,
    cluster: &'a ClusterName,
}

impl Reader<'_> {
    async fn one(&self, path: &str) -> Result<Option<Value>, Failure> {
        let Self { member, host, cluster } = self;
        let answer = through::ask(member, &host.cluster, cluster, Method::GET, path, None).await?;
        match answer.status {
            status if status.is_success() => Ok(Some(answer.json())),
            http::StatusCode::NOT_FOUND => Ok(None),
            _ => Err(member.refused(format!("get {path}"), &answer).into()),
        }
    }

    async fn actual(&self, impersonator: &Impersonator) -> Result<Actual, Failure> {
        let name = impersonator.rights;
        let one = async |kind: &str| self.one(&format!("/apis/{RBAC}/{kind}/{name}")).await;
        let all = async |kind: &str| {
            self.one(&format!("/apis/{RBAC}/{kind}?fieldSelector=metadata.name={name}")).await
        };
        let some = |object: Option<Value>| object.map(|object| parse(object, "ClusterRole")).transpose();
        Ok(Actual {
            cluster_role: some(one("clusterroles").await?)?,
            cluster_role_binding: match one("clusterrolebindings").await? {
                Some(binding) => Some(parse(binding, "ClusterRoleBinding")?),
                None => None,
            },
            roles: parse(objects(all("roles").await?).into(), "Role")?,
            role_bindings: parse(objects(all("rolebindings").await?).into(), "RoleBinding")?,
        })
    }
}

fn because(reasons: &BTreeSet<Because>) -> String {
    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

fn objects(list: Option<Value>) -> Vec<Value> {
    into_items(list.unwrap_or_default())
}

fn parse<T: DeserializeOwned>(value: Value, what: &'static str) -> Result<T, Failure> {
    serde_json::from_value(value).context(|| format!("cannot read a {what}"))
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";
