//! The members of Karmada whose rights the leader has written with Karmada's account. Karmada's own rules
//! allow neither uid nor extra, so these are sent only to such members. A later failure of the
//! leader does not change this: the rights are still on the member, and a caller must not lose a
//! restriction by its extra.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kubectl_mc_api::{ClusterName, MemberCluster};

#[derive(Debug, Default)]
pub(super) struct RightsWritten {
    members: HashSet<ClusterName>,
}

impl RightsWritten {
    /// Whether the rights on a member have been written, according to its current or an earlier
    /// status. Without an account that may write them, the hub's own rules apply.
    pub(super) fn update(
        &mut self,
        name: &ClusterName,
        member: &MemberCluster,
        account: Option<&Result<Arc<Secret>, Arc<str>>>,
    ) -> bool {
        if !matches!(account, Some(Ok(_))) {
            self.members.remove(name);
        } else if member.has_written_rights() {
            self.members.insert(name.clone());
        }
        self.members.contains(name)
    }

    /// Forgets members that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&ClusterName) -> bool) {
        self.members.retain(|name| is_there(name));
    }
}
