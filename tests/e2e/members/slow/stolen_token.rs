//! The handbook's procedure for a stolen token: after the member's accounts are deleted and a join
//! has created them again, the old tokens are invalid.

use anyhow::{Result, ensure};
use harness::api::Api;
use harness::bed::SYSTEM;
use harness::wait::{SOON, eventually};

use crate::members::joined::Joined;

#[test]
fn stolen_tokens_end_with_their_accounts() -> Result<()> {
    let joined = Joined::under("e2e-stolen")?;
    let cluster = joined.alone.cluster;
    let stolen = ["e2e-stolen.member", "e2e-stolen.manager"].map(|secret| joined.fleet.token(secret));
    let [member, manager] = stolen;
    let thieves = [Api::bearer(cluster, &member?)?, Api::bearer(cluster, &manager?)?];
    let login = |thief: &Api| -> Result<u16> {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        Ok(thief.request("POST", path, "application/json", review)?.status())
    };
    for thief in &thieves {
        ensure!(login(thief)? == 201, "the token is of no use before");
    }

    let admin = Api::admin(cluster)?;
    for account in ["kubectl-mc-impersonator", "kubectl-mc-manager"] {
        admin.delete(&format!("/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}"))?;
    }
    let said = joined.admin.ok(&["join", "e2e-stolen", "--member-context=member"])?;
    for account in ["kubectl-mc-impersonator", "kubectl-mc-manager"] {
        ensure!(said.contains(&format!("member: serviceaccount/{account} created")), "{said}");
    }
    for thief in &thieves {
        // A kube-apiserver caches the verdict on a token for 10 s.
        eventually("the old token is refused", SOON, || Ok((login(thief)? == 401).then_some(())))?;
    }
    joined.admin.ok(&["--cluster=e2e-stolen", "get", "namespaces"]).map(drop)
}
