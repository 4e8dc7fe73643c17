//! Implements `kubectl mc access grant` and `revoke`: writes the host's right on `clusters/proxy` and the
//! member's binding together. The request for the member's binding uses the caller's proxy path.

mod objects;

use std::time::Duration;

use http::{Method, StatusCode};
use kubectl_mc_api::cluster_access::RoleKind;
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::names::HOST_GRANT;
use kubectl_mc_api::{ClusterName, path};
use serde_json::Value;

use self::objects::{Grant, fleet_binding, object};
use super::cluster_access::{self, MaintainedGrant};
use super::outcomes::Outcomes;
use super::role::{GrantedRole, Reach};
use super::selection::{Clusters, Selection, names};
use super::subject::GrantSubject;
use super::through;
use crate::apply::Apply;
use crate::apply::delete::Delete;
use crate::cli::GrantArgs;
use crate::cluster::connection::{self, Connection};
use crate::cluster::fields::items;
use crate::env::Env;
use crate::error::{Failure, Hint, mc};
use crate::exit::ExitStatus;
use crate::multi::selection::SelectedCluster;
use crate::printer::Printer;

pub(super) async fn grant(
    arguments: &GrantArgs,
    selection: Selection,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let GrantArgs { who, duration, name, fleet, dry_run, .. } = arguments;
    let (role, subjects) = (role_of(arguments)?, GrantSubject::of(who)?);
    let Selection { host, clusters, terms } = selection;
    let host = connection::to("host", host, env).await?;
    announce(&clusters, printer);
    let maintained = MaintainedGrant {
        role,
        subjects: &subjects,
        clusters: &clusters,
        terms: &terms,
        name: name.as_deref(),
    };
    if *fleet {
        let apply = Apply { dry_run: *dry_run, force_conflicts: true };
        let bindings = subjects.iter().map(fleet_binding);
        apply.print_each("host: ", &host, bindings, printer).await?;
    }
    match &clusters {
        Clusters::Named(clusters) if duration.is_none() && name.is_none() => {
            let now = ImmediateGrant { role, subjects: &subjects, dry_run: *dry_run };
            let mut outcomes = Outcomes::new(clusters.len(), &host.cluster, printer);
            for name in clusters.iter().filter_map(SelectedCluster::member) {
                outcomes.add(name, now.grant(name, &host, env, printer).await)?;
            }
            Ok(outcomes.status())
        }
        _ => maintained.write(*duration, *dry_run, &host, env, printer).await,
    }
}

pub(super) async fn revoke(
    arguments: &GrantArgs,
    selection: Selection,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let GrantArgs { who, name, fleet, dry_run, .. } = arguments;
    let (role, subjects) = (role_of(arguments)?, GrantSubject::of(who)?);
    let Selection { host, clusters, terms } = selection;
    let host = connection::to("host", host, env).await?;
    announce(&clusters, printer);
    let delete = Delete { dry_run: *dry_run, timeout: TIMEOUT };
    let maintained = MaintainedGrant {
        role,
        subjects: &subjects,
        clusters: &clusters,
        terms: &terms,
        name: name.as_deref(),
    };
    if *fleet {
        let bindings = subjects.iter().map(fleet_binding).collect();
        delete_from(&host, "host", bindings, delete, printer).await?;
    }
    let Clusters::Named(clusters) = &clusters else {
        cluster_access::served(&host).await?;
        maintained.exists(&host).await?;
        if !maintained.delete(delete, &host, printer).await? {
            nothing(&format!("there is no ClusterAccess {}", maintained.name()), &host, printer);
        }
        return Ok(ExitStatus::Success);
    };
    let is_maintained = maintained.exists(&host).await?;
    if is_maintained {
        maintained.delete(delete, &host, printer).await?;
    }
    if arguments.duration.is_some() || name.is_some() {
        if !is_maintained {
            nothing(&format!("there is no ClusterAccess {}", maintained.name()), &host, printer);
        }
        return Ok(ExitStatus::Success);
    }
    let now = ImmediateGrant { role, subjects: &subjects, dry_run: *dry_run };
    let mut outcomes = Outcomes::new(clusters.len(), &host.cluster, printer);
    for name in clusters.iter().filter_map(SelectedCluster::member) {
        outcomes.add(name, now.revoke(name, is_maintained, delete, &host, env, printer).await)?;
    }
    Ok(outcomes.status())
}

/// Revokes a ClusterAccess by its name alone.
pub(super) async fn revoke_named(
    name: &str,
    dry_run: bool,
    host: &Connection,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    cluster_access::served(host).await?;
    let delete = Delete { dry_run, timeout: TIMEOUT };
    if !cluster_access::delete_named(name, delete, host, printer).await? {
        nothing(&format!("there is no ClusterAccess {name}"), host, printer);
    }
    Ok(ExitStatus::Success)
}

/// A grant that is written immediately, with the caller's own rights.
struct ImmediateGrant<'a> {
    role: GrantedRole<'a>,
    subjects: &'a [GrantSubject],
    dry_run: bool,
}

impl ImmediateGrant<'_> {
    async fn grant(
        &self,
        cluster: &ClusterName,
        host: &Connection,
        env: &Env,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let Self { role, subjects, dry_run } = *self;
        let apply = Apply { dry_run, force_conflicts: true };
        let member = through::member(&host.cluster, cluster, env).await?;
        let reach = reach(role, cluster, host, &member).await?;
        let accounts = match subjects.iter().any(GrantSubject::depends_on_member) {
            true => service_accounts(host, cluster).await?,
            false => ServiceAccounts::default(),
        };
        for subject in subjects {
            let grant = Grant { cluster, role, subject };
            let seen = subject.on_member(accounts).ok_or_else(|| {
                Failure::new(format!(
                    "cannot grant access to {subject} on {cluster}: spec.impersonation.serviceAccounts of MemberCluster {cluster} is Omit"
                ))
                .with_hint(mc("join --service-accounts=prefixed").that("of that member lets them in as users"))
            })?;
            // The member comes first: the right on the proxy is useless without a right on the member.
            let (on_member, on_host) =
                ([grant.on_member(seen)], [grant.host_role(reach), grant.host_binding()]);
            apply.print_each(&format!("{cluster}: "), &member, on_member, printer).await?;
            apply.print_each("host: ", host, on_host, printer).await?;
        }
        if !dry_run {
            printer.out(&next(host, cluster, role, &subjects[0]));
        }
        Ok(())
    }

    /// If `is_maintained`, a ClusterAccess was already revoked, so a missing grant is not reported.
    async fn revoke(
        &self,
        cluster: &ClusterName,
        is_maintained: bool,
        delete: Delete,
        host: &Connection,
        env: &Env,
        printer: &Printer,
    ) -> Result<(), Failure> {
        let Self { role, dry_run, .. } = *self;
        // The host comes first and does not need the member: this ends the access immediately, even if the member
        // does not answer.
        let bindings = self.bindings(cluster, |grant| grant.host_binding());
        let any_on_host = delete_from(host, "host", bindings, delete, printer).await?;
        if any_on_host && !dry_run {
            sweep(host, cluster, role, delete, printer).await?;
        }
        let any_on_member = match self.revoke_on_member(cluster, delete, host, env, printer).await {
            Err(failure) if any_on_host => return Err(left_on_member(cluster, &failure, dry_run)),
            outcome => outcome?,
        };
        if !any_on_host && !any_on_member && !is_maintained {
            nothing(&format!("`kubectl mc access grant` made no such grant on {cluster}"), host, printer);
        } else if any_on_member && !any_on_host && !dry_run {
            sweep(host, cluster, role, delete, printer).await?;
        }
        Ok(())
    }

    /// Returns whether the member had a binding of such a grant.
    async fn revoke_on_member(
        &self,
        cluster: &ClusterName,
        delete: Delete,
        host: &Connection,
        env: &Env,
        printer: &Printer,
    ) -> Result<bool, Failure> {
        let member = through::member(&host.cluster, cluster, env).await?;
        through::ask(&member, &host.cluster, cluster, Method::GET, "/version", None).await?;
        // The name does not depend on how the member sees the subject.
        let bindings = self.bindings(cluster, |grant| grant.on_member(grant.subject.rbac()));
        delete_from(&member, cluster.as_str(), bindings, delete, printer).await
    }

    /// The binding of each subject on one side.
    fn bindings(&self, cluster: &ClusterName, of: impl Fn(&Grant<'_>) -> Value) -> Vec<Value> {
        let Self { role, subjects, .. } = *self;
        subjects.iter().map(|subject| of(&Grant { cluster, role, subject })).collect()
    }
}

/// Deletes the existing bindings and prints each with the name of its side. Returns whether there
/// were any.
async fn delete_from(
    side: &Connection,
    name: &str,
    bindings: Vec<Value>,
    delete: Delete,
    printer: &Printer,
) -> Result<bool, Failure> {
    let mut any = false;
    for binding in bindings {
        let binding = std::iter::once(binding);
        any |= delete.print_each(&format!("{name}: "), side, binding, printer).await?;
    }
    Ok(any)
}

/// Prints the names of several clusters.
fn announce(clusters: &Clusters, printer: &Printer) {
    if let Clusters::Named(clusters) = clusters
        && clusters.len() > 1
    {
        printer.note_line(&format!("clusters: {}", names(clusters).join(", ")));
    }
}

fn nothing(why: &str, host: &Connection, printer: &Printer) {
    let kubectl_mc = host.cluster.kubectl_mc();
    printer.note_line(&format!("nothing to revoke: {why}; see: {kubectl_mc} access list"));
}

fn role_of(arguments: &GrantArgs) -> Result<GrantedRole<'_>, Failure> {
    let role = arguments.role.as_deref().ok_or_else(|| {
        let example = mc("access grant view --user=NAME -C CLUSTER").after("for example");
        Failure::usage("no role is named").with_hint(example)
    })?;
    GrantedRole::parse(role, arguments.namespace.as_deref())
}

/// Deletes the host's role of a cluster if no other grant uses it.
async fn sweep(
    host: &Connection,
    cluster: &ClusterName,
    role: GrantedRole<'_>,
    delete: Delete,
    printer: &Printer,
) -> Result<(), Failure> {
    let path = format!("/apis/{RBAC}/clusterrolebindings?labelSelector={HOST_GRANT}={cluster}");
    let bindings = host.get(&path).await?.unwrap_or_default();
    let role = role.host_role(cluster);
    if items(&bindings).all(|binding| binding["roleRef"]["name"] != role.as_str()) {
        let role = std::iter::once(object("ClusterRole", &role, None));
        delete.print_each("host: ", host, role, printer).await?;
    }
    Ok(())
}

/// Under which name the host's service accounts act on a member. Without an answer, nothing is
/// granted, because a binding could apply to an account of the member.
pub(super) async fn service_accounts(
    host: &Connection,
    cluster: &ClusterName,
) -> Result<ServiceAccounts, Failure> {
    let registered = host.get(&path::member_cluster(cluster)).await?;
    let setting = registered.as_ref().map(|cluster| &cluster["spec"]["impersonation"]["serviceAccounts"]);
    match setting.filter(|setting| !setting.is_null()) {
        None => Ok(ServiceAccounts::default()),
        Some(setting) => serde_json::from_value(setting.clone()).map_err(|_| {
            Failure::new(format!(
                "spec.impersonation.serviceAccounts of MemberCluster {cluster} is {setting}, which this plugin does not know"
            ))
            .with_hint(mc("version").after("use a plugin of the sidecar's version"))
        }),
    }
}

/// Determines which verbs on the proxy a role needs. A read-only role gets read access alone.
async fn reach(
    role: GrantedRole<'_>,
    cluster: &ClusterName,
    host: &Connection,
    member: &Connection,
) -> Result<Reach, Failure> {
    let answer = through::ask(member, &host.cluster, cluster, Method::GET, &role.path(), None).await?;
    match answer.status {
        StatusCode::NOT_FOUND => Err(no_role(role, cluster)),
        status if status.is_success() => Ok(Reach::of(&answer.json())),
        StatusCode::FORBIDDEN => Ok(role.assumed_reach()),
        _ => Err(member.refused(format!("get {} {}", role.kind.as_str(), role.name), &answer).into()),
    }
}

fn no_role(role: GrantedRole<'_>, cluster: &ClusterName) -> Failure {
    let GrantedRole { kind, name, namespace } = role;
    let (role, list) = match (kind, namespace) {
        (RoleKind::Role, Some(namespace)) => {
            (format!("Role {name:?} in namespace {namespace:?}"), format!("roles -n {namespace}"))
        }
        _ => (format!("ClusterRole {name:?}"), "clusterroles".to_owned()),
    };
    Failure::new(format!("cluster {cluster} has no {role}")).with_hint(
        Hint::from("view, edit and admin are Kubernetes' own ClusterRoles")
            .and(mc(format!("--cluster={cluster} get {list}")).after("see")),
    )
}

/// The host's binding is deleted, but the member's is not.
fn left_on_member(cluster: &ClusterName, cause: &Failure, dry_run: bool) -> Failure {
    let ended = if dry_run { "would end" } else { "has ended" };
    let again = "run the same command again when the member answers";
    Failure::new(format!("access through the host {ended}, and the binding on {cluster} is left: {cause}"))
        .with_hint(cause.hint.clone().map_or_else(|| again.into(), |hint| hint.and(again)))
        .with_status(cause.status)
}

fn next(host: &Connection, cluster: &ClusterName, role: GrantedRole<'_>, subject: &GrantSubject) -> String {
    let kubectl_mc = host.cluster.kubectl_mc();
    let place = role.namespace.map_or_else(|| " -A".to_owned(), |namespace| format!(" -n {namespace}"));
    format!(
        "{subject} has {role} on {cluster}; next, as that user: {kubectl_mc} --cluster={cluster} get pods{place}\n"
    )
}

/// Timeout for the removal of a deleted object.
const TIMEOUT: Duration = Duration::from_secs(30);
const RBAC: &str = "rbac.authorization.k8s.io/v1";

#[cfg(test)]
mod tests;
