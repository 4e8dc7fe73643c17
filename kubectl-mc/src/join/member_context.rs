//! Finds the kubeconfig context of a member.

use crate::cli::MemberArgs;
use crate::cluster::context::{ClusterContext, HostOptions};
use crate::env::Env;
use crate::error::{Failure, Hint, list_contexts};

/// The cluster of the member's context, by default from the host's kubeconfig.
pub(crate) fn member(
    arguments: &MemberArgs,
    host: &HostOptions,
    env: &Env,
) -> Result<ClusterContext, Failure> {
    let MemberArgs { member_context, member_kubeconfig } = arguments;
    if member_context.is_none() && member_kubeconfig.is_none() {
        return Err(Failure::usage("the member is not named").with_hint(
            Hint::from("choose its kubeconfig context by --member-context=NAME").and(list_contexts()),
        ));
    }
    let kubeconfig = member_kubeconfig.as_ref().map(Into::into).or_else(|| host.kubeconfig.clone());
    let options = HostOptions::plain(kubeconfig, member_context.clone());
    Ok(ClusterContext::load(&options, env).map_err(|error| error.in_role("member"))?)
}
