//! Implements `kubectl mc access explain`: checks a request hop by hop before it is made. It prints
//! which hop refuses the request, why, and the command that fixes it.

mod fix;
mod hops;
mod member;
mod needs;
mod proxy_right;

use http::Method;
use kubectl_mc_api::access::sent::AUTHENTICATED;
use kubectl_mc_api::member_cluster::ServiceAccounts;
use kubectl_mc_api::{ClusterName, Origin, names, path};
use serde_json::json;

use self::fix::Fix;
use self::hops::{Hops, Verdict};
use self::member::Question;
use self::needs::KubectlCommand;
use self::proxy_right::ProxyRight;
use super::grant;
use super::identity::Identity;
use super::rules::Rules;
use super::through;
use crate::cli::ExplainArgs;
use crate::cluster::connection::Connection;
use crate::cluster::context::ClusterContext;
use crate::cluster::fields::into_items;
use crate::env::Env;
use crate::error::{Failure, mc};
use crate::exit::ExitStatus;
use crate::join::wait::{State, state};
use crate::printer::Printer;

pub(super) async fn run(
    arguments: &ExplainArgs,
    cluster: &ClusterName,
    host: &Connection,
    env: &Env,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let ExplainArgs { user, groups, .. } = arguments;
    let command = KubectlCommand::of(arguments);
    let KubectlCommand { verb, resource, object, .. } = &command;
    if let Some(unknown) = hops::unknown_verb(verb).filter(|_| !resource.starts_with('/')) {
        return Err(unknown);
    }
    if resource.is_empty() {
        let hint = mc(format!("access explain -C {cluster} {verb} TYPE/NAME"));
        return Err(Failure::usage(format!("{verb} needs an object")).with_hint(hint));
    }
    let namespace = match arguments.all_namespaces {
        true => None,
        false => Some(namespace(&command, arguments, &host.cluster)),
    };
    let member = through::member(&host.cluster, cluster, env).await?;
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
    let rules = Rules::of(host).await?;
    // A caller's own request shows this, because the sidecar builds the identity.
    let accounts = match user {
        Some(_) if who.depends_on_member() => grant::service_accounts(host, cluster).await,
        _ => Ok(ServiceAccounts::default()),
    };
    let Registered { verdict: sidecar, learns, origin } = sidecar(host, cluster).await?;
    let mut question = Question {
        host,
        member: &member,
        cluster,
        who: &who,
        rules: &rules,
        origin,
        learns,
        // The host adds the groups of a service account itself.
        has_unknown_groups: user.is_some() && groups.is_empty() && who.groups == [AUTHENTICATED],
        rights: Vec::new(),
        unknown: None,
    };
    question.resolve(&command, namespace.as_deref()).await;
    let fix = Fix::find(&question).await;
    // A grant does not help if the member does not serve the resource.
    let grant = || if question.unknown.is_some() { question.resources() } else { fix.command() };
    let right = ProxyRight { host, who: &who, is_self: user.is_none(), cluster, origin };
    let proxy = match right.verdict_of_all(&question.proxy_verbs(), &grant).await? {
        Verdict::No(why, _) => question.refused(why, &grant),
        verdict => verdict,
    };
    hops.add("host authorization", proxy);
    hops.add("sidecar", sidecar);
    let of_member = match (user, accounts) {
        (Some(_), Ok(accounts)) => question.of_another(accounts, &grant).await,
        (Some(_), Err(failure)) => Err(failure),
        (None, _) => question.of_oneself(&grant).await,
    };
    hops.add_member(of_member);
    let object = object.as_ref().map(|object| format!(" {object}")).unwrap_or_default();
    let in_namespace =
        |right: &member::Right| right.attributes["resourceAttributes"]["namespace"].is_string();
    let namespace = namespace.filter(|_| question.rights.iter().any(in_namespace));
    let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    printer.out_line(&format!("May {} {verb} {resource}{object}{place} on {cluster}?", who.user));
    printer.out(&hops.table());
    // For the caller, the request went through the sidecar itself, so no rules were assumed.
    if let Some(note) = rules.note().filter(|_| user.is_some()) {
        printer.note(note);
    }
    Ok(if hops.all_yes() { ExitStatus::Success } else { ExitStatus::Failed })
}

/// The namespace of the command, as kubectl chooses it.
fn namespace(command: &KubectlCommand, arguments: &ExplainArgs, host: &ClusterContext) -> String {
    let given = command.namespace.as_ref().or(arguments.namespace.as_ref());
    given.or(host.namespace.as_ref()).map_or("default", String::as_str).to_owned()
}

/// The caller's identity, as the host reports it.
async fn whoami(host: &Connection) -> Result<Identity, Failure> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = host.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?;
    Ok(Identity::of_review(&answer["status"]["userInfo"]))
}

/// What the sidecar reports about the member.
struct Registered {
    /// Whether the member can be used.
    verdict: Verdict,
    /// Whether the sidecar grants rights on the member on demand.
    learns: bool,
    /// The inventory that lists the member.
    origin: Origin,
}

async fn sidecar(host: &Connection, cluster: &ClusterName) -> Result<Registered, Failure> {
    let view = format!("{}/{cluster}", path::CLUSTERS_PATH);
    let mut answer = host.send(Method::GET, &view, None).await?;
    let mut object = answer.json();
    if answer.status == http::StatusCode::FORBIDDEN {
        // The list shows callers the clusters whose proxy they may use.
        let list = format!("{}?fieldSelector=metadata.name%3D{cluster}", path::CLUSTERS_PATH);
        let listed = host.send(Method::GET, &list, None).await?;
        let shown = into_items(listed.json()).into_iter().next();
        match shown.filter(|_| listed.status.is_success()) {
            Some(shown) => (answer, object) = (listed, shown),
            None => {
                answer = host.send(Method::GET, &path::member_cluster(cluster), None).await?;
                object = answer.json();
            }
        }
    }
    let (kubectl, kubectl_mc) = (host.cluster.kubectl(), host.cluster.kubectl_mc());
    let learns = matches!(state(&object, "AuthSynced"), State::True);
    let verdict = match answer.status {
        status if status.is_success() => match state(&object, "Ready").unmet() {
            None => Verdict::yes(format!("{cluster} is Ready")),
            Some(said) => Verdict::no(said.to_owned(), format!("{kubectl} describe membercluster {cluster}")),
        },
        http::StatusCode::NOT_FOUND
            if answer
                .refusal()
                .is_some_and(|refusal| refusal.hop == crate::cluster::hop::Hop::SidecarMissing) =>
        {
            Verdict::no("mc-sidecar is not installed on the host".to_owned(), format!("{kubectl_mc} install"))
        }
        http::StatusCode::NOT_FOUND => {
            let why = format!("{cluster} is not registered, or not visible to you");
            Verdict::no(why, format!("{kubectl_mc} clusters"))
        }
        status if status.is_server_error() => Verdict::no(
            format!("the sidecar does not answer: {}", answer.message()),
            format!("{kubectl} get apiservice {}", names::API_SERVICE),
        ),
        _ => Verdict::Unknown(format!("you may not get the cluster: {}", answer.message()), None),
    };
    let origin = Origin::of_label(object["metadata"]["labels"][names::INVENTORY].as_str());
    Ok(Registered { verdict, learns, origin })
}
