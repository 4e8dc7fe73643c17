//! `kubectl mc access explain`: checks a request hop by hop before it is made, and prints which hop refuses it,
//! why, and the command that changes that.

mod hops;
mod member;

use http::Method;
use kubectl_mc_api::{ClusterName, names, path};
use serde_json::json;

use self::hops::{Hops, Verdict};
use super::identity::Identity;
use super::rules::Rules;
use super::through;
use crate::cli::ExplainArgs;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::join::side::Side;
use crate::join::wait::{State, state};
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &ExplainArgs,
    cluster: &ClusterName,
    host: &Side,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let ExplainArgs { user, groups, namespace, verb, resource, object, after_object: _ } = arguments;
    let member = through::member(&host.at.cluster, cluster, env).await?;
    let mut hops = Hops::default();

    let who = match user {
        Some(user) => {
            let who = Identity::named(user, groups);
            hops.add("host authentication", Verdict::yes(format!("{}, as given by --as", who.in_words())));
            who
        }
        None => {
            let who = whoami(host).await?;
            hops.add("host authentication", Verdict::yes(who.in_words()));
            who
        }
    };
    let kubectl_mc = host.at.cluster.kubectl_mc();
    let grant = || {
        let flags = subject_flags(&who.user);
        let place = namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
        let role = if hops::reads(verb) { "view" } else { "edit" };
        format!("{kubectl_mc} access grant {role} {flags}{place} -C {cluster}")
    };
    let is_self = user.is_none();
    hops.add("host authorization", host_authorization(host, &who, is_self, cluster, verb, &grant).await?);
    hops.add("sidecar", sidecar(host, cluster).await?);
    let rules = Rules::of(host).await?;
    let question = member::Question { host, member: &member, cluster, who: &who, rules: &rules, arguments };
    let asked = match user {
        Some(_) => question.of_another(&grant).await,
        None => question.of_oneself(&grant).await,
    };
    match asked {
        Ok(verdicts) => verdicts.into_iter().for_each(|(hop, verdict)| hops.add(hop, verdict)),
        Err(failure) => {
            let why = format!("the member cannot be asked: {failure}");
            for hop in ["member impersonation", "member authorization"] {
                hops.add(hop, Verdict::Unknown(why.clone(), failure.hint.clone()));
            }
        }
    }
    let object = object.as_ref().map(|object| format!(" {object}")).unwrap_or_default();
    let place = namespace.as_ref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    printer.out_line(&format!("May {} {verb} {resource}{object}{place} on {cluster}?", who.user));
    printer.out(&hops.table());
    // About oneself the member was really asked.
    if let Some(note) = rules.note().filter(|_| user.is_some()) {
        printer.note(note);
    }
    Ok(if hops.all_yes() { ExitStatus::Success } else { ExitStatus::Failed })
}

/// The caller, as the host knows them.
async fn whoami(host: &Side) -> Result<Identity, Failure> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = host.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?;
    Ok(Identity::of_review(&answer["status"]["userInfo"]))
}

/// The right on the member's proxy. Upgrades need create whatever their method.
async fn host_authorization(
    host: &Side,
    who: &Identity,
    is_self: bool,
    cluster: &ClusterName,
    verb: &str,
    grant: &impl Fn() -> String,
) -> Result<Verdict, Failure> {
    let needed = hops::proxy_verb(verb);
    let attributes = json!({"resourceAttributes": {
        "group": path::PROXY_GROUP, "version": path::PROXY_VERSION, "resource": "clusters",
        "subresource": "proxy", "name": cluster.as_str(), "verb": needed,
    }});
    // Every user may ask about their own rights.
    let (path, review) = if is_self {
        (SELF_REVIEWS, hops::self_review(&attributes))
    } else {
        (REVIEWS, who.review(&attributes))
    };
    let answer = host.send(Method::POST, path, Some(("application/json", &review))).await?;
    if !answer.status.is_success() {
        return Ok(Verdict::Unknown(
            format!("you may not ask the host about others: {}", answer.message()),
            None,
        ));
    }
    let status = &answer.json()["status"];
    let reason = status["reason"].as_str().unwrap_or_default();
    let what = format!("{needed} clusters/proxy of {cluster}");
    Ok(if status["allowed"] == true {
        Verdict::yes(hops::with_reason(&what, reason))
    } else {
        Verdict::no(hops::with_reason(&format!("may not {what}"), reason), grant())
    })
}

/// Whether the sidecar knows the member and can use it.
async fn sidecar(host: &Side, cluster: &ClusterName) -> Result<Verdict, Failure> {
    let (view, registry) = (format!("{}/{cluster}", path::CLUSTERS_PATH), path::member_cluster(cluster));
    let mut answer = host.send(Method::GET, &view, None).await?;
    if answer.status == http::StatusCode::FORBIDDEN {
        answer = host.send(Method::GET, &registry, None).await?;
    }
    let (kubectl, kubectl_mc) = (host.at.cluster.kubectl(), host.at.cluster.kubectl_mc());
    Ok(match answer.status {
        status if status.is_success() => match state(&answer.json(), "Ready") {
            State::True => Verdict::yes(format!("{cluster} is Ready")),
            State::Not(said) => Verdict::no(said, format!("{kubectl} describe membercluster {cluster}")),
        },
        http::StatusCode::NOT_FOUND
            if answer
                .refusal()
                .is_some_and(|refusal| refusal.hop == crate::cluster::hop::Hop::SidecarMissing) =>
        {
            Verdict::no("mc-sidecar is not installed on the host".to_owned(), format!("{kubectl_mc} install"))
        }
        http::StatusCode::NOT_FOUND => {
            Verdict::no(format!("no cluster {cluster} is registered"), format!("{kubectl_mc} clusters"))
        }
        status if status.is_server_error() => Verdict::no(
            format!("the sidecar does not answer: {}", answer.message()),
            format!("{kubectl} get apiservice {}", names::API_SERVICE),
        ),
        _ => Verdict::Unknown(format!("you may not get the cluster: {}", answer.message()), None),
    })
}

/// The flags of `access grant` for a user.
fn subject_flags(user: &str) -> String {
    match user.strip_prefix("system:serviceaccount:") {
        Some(account) => format!("--serviceaccount={account}"),
        None => format!("--user={user}"),
    }
}

const SELF_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
