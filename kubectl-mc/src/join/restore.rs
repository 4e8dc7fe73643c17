//! Implements `kubectl mc join --restore`: recreates the MemberClusters that the host has lost,
//! from the records that the leader keeps on the members' Secrets. If the definitions of the
//! registry are also missing, it first creates these. The members themselves are not contacted:
//! their Secrets, accounts and agents are still there.

use kubectl_mc_api::{ClusterName, Registration};
use serde_json::{Value, json};

use super::lost::{self, LostMember};
use super::{manifest, survey};
use crate::apply::Apply;
use crate::apply::object::Object;
use crate::cli::JoinArgs;
use crate::cluster::connection::{self, Connection};
use crate::cluster::context::HostOptions;
use crate::confirm::confirm;
use crate::env::Env;
use crate::error::{CommandLine, Failure};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::server_text::escaped;

/// Restores one member, or all that are lost.
pub(crate) fn run(
    name: Option<&ClusterName>,
    arguments: &JoinArgs,
    options: &HostOptions,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    connection::run(async {
        let host = connection::connect("host", options, env).await?;
        restore(&host, name, arguments, printer).await
    })
}

async fn restore(
    host: &Connection,
    name: Option<&ClusterName>,
    arguments: &JoinArgs,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let JoinArgs { dry_run, yes, .. } = arguments;
    let namespace = survey::namespace(host).await?;
    let lost = lost::find(host, &namespace).await?;
    let kubectl_mc = host.cluster.kubectl_mc();
    let Plan { members, unrecorded } = Plan::of(lost.members, name);
    if members.is_empty() && unrecorded.is_empty() {
        return match name {
            None => {
                let all =
                    format!("every member with a Secret in namespace {namespace} has its MemberCluster");
                printer.out_line(&all);
                Ok(ExitStatus::Success)
            }
            Some(name) => Err(Failure::new(format!(
                "cannot restore {name}: it has its MemberCluster, or no Secret {name}.member in namespace {namespace}"
            ))
            .with_hint("a cluster without a Secret is joined by --member-context=NAME")),
        };
    }
    for (name, registration) in &members {
        printer.note_line(&format!("{name}: {}", described(registration)));
    }
    if members.len() > 1 && !yes && !dry_run {
        confirm(&format!("Write back {} MemberClusters?", members.len()), printer)?;
    }
    let definitions = if members.is_empty() { Vec::new() } else { missing_definitions(host).await? };
    let objects = members.iter().map(|(name, registration)| registration.object(name));
    let apply = Apply { dry_run: *dry_run, force_conflicts: false };
    apply.print_each("", host, definitions.into_iter().chain(objects), printer).await?;
    let Some((first, _)) = unrecorded.first() else { return Ok(ExitStatus::Success) };
    let why: Vec<_> = unrecorded.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let register = CommandLine::new(format!("{kubectl_mc} join {first} --restore"));
    Err(Failure::new(format!("cannot restore {}", why.join("; ")))
        .with_hint(register.after("register it without labels and with the default settings, then set them")))
}

/// The objects to recreate, and the members that cannot be restored.
struct Plan {
    members: Vec<(ClusterName, Registration)>,
    /// Members without a valid record, with the reason.
    unrecorded: Vec<(ClusterName, String)>,
}

impl Plan {
    /// The labels and settings of a member without a record are unknown, and they determine access.
    /// It is restored without them only if it is named.
    fn of(lost: Vec<LostMember>, only: Option<&ClusterName>) -> Self {
        let mut plan = Self { members: Vec::new(), unrecorded: Vec::new() };
        for LostMember { name, record } in lost {
            match (record, only) {
                (_, Some(only)) if *only != name => {}
                (Some(Ok(registration)), _) => plan.members.push((name, registration)),
                (None, Some(_)) => {
                    plan.members.push((name, Registration { spec: json!({}), ..Registration::default() }));
                }
                (None, None) => plan.unrecorded.push((name, "its Secret has no record".to_owned())),
                (Some(Err(invalid)), _) => plan.unrecorded.push((name, invalid.to_string())),
            }
        }
        plan
    }
}

/// The labels of a member, and its spec if it is not empty.
fn described(registration: &Registration) -> String {
    let labels: Vec<_> = registration.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels =
        if labels.is_empty() { "no labels".to_owned() } else { format!("labels {}", labels.join(",")) };
    match &registration.spec {
        Value::Object(fields) if !fields.is_empty() => {
            escaped(&format!("{labels}; spec {}", registration.spec))
        }
        _ => escaped(&labels),
    }
}

/// The definitions of the registry that the host does not have. Existing ones may be of another version, and
/// are left to `install`.
async fn missing_definitions(host: &Connection) -> Result<Vec<Value>, Failure> {
    let mut missing = Vec::new();
    for definition in manifest::definitions()? {
        if Object::new(definition.clone())?.get(host).await?.is_none() {
            missing.push(definition);
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(name: &str, record: Option<&str>) -> LostMember {
        let annotations = record.map(|record| {
            [(kubectl_mc_api::names::REGISTRATION.to_owned(), record.to_owned())].into_iter().collect()
        });
        LostMember {
            name: name.parse().unwrap(),
            record: annotations.and_then(|annotations| Registration::parse(&annotations)),
        }
    }

    fn names(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
        (
            plan.members.iter().map(|(name, _)| name.as_str()).collect(),
            plan.unrecorded.iter().map(|(name, _)| name.as_str()).collect(),
        )
    }

    fn all() -> Vec<LostMember> {
        vec![
            lost("m1", Some(r#"{"labels":{"env":"prod"},"spec":{}}"#)),
            lost("m2", None),
            lost("m3", Some("x")),
        ]
    }

    #[test]
    fn member_without_a_record_is_restored_by_name_only() {
        assert_eq!(names(&Plan::of(all(), None)), (vec!["m1"], vec!["m2", "m3"]));
        let by_name = |name: &str| Plan::of(all(), Some(&name.parse().unwrap()));
        assert_eq!(names(&by_name("m1")), (vec!["m1"], vec![]));
        assert_eq!(names(&by_name("m2")), (vec!["m2"], vec![]));
        assert_eq!(names(&by_name("m3")), (vec![], vec!["m3"]), "an invalid record is never ignored");
        assert_eq!(names(&by_name("m4")), (vec![], vec![]));
    }

    #[test]
    fn labels_and_spec_are_shown_before_the_question() {
        let registration = |record: &str| serde_json::from_str::<Registration>(record).unwrap();
        assert_eq!(described(&registration(r#"{"spec":{}}"#)), "no labels");
        let record = r#"{"labels":{"a":"b","c":"d"},"spec":{"impersonation":{"uid":"Omit"}}}"#;
        assert_eq!(
            described(&registration(record)),
            r#"labels a=b,c=d; spec {"impersonation":{"uid":"Omit"}}"#
        );
        assert_eq!(described(&registration("{\"labels\":{\"a\":\"\\u001b\"},\"spec\":{}}")), "labels a=^[");
    }
}
