//! Tests that `sidecar/deploy/crd.yaml` matches the types. `UPDATE=1 cargo test -p kubectl-mc-api --test crd`
//! regenerates it.

use std::error::Error;

use kube::CustomResourceExt;
use kubectl_mc_api::{ClusterAccess, MemberCluster};

#[test]
fn definitions_match_the_types() -> Result<(), Box<dyn Error>> {
    let definitions = [MemberCluster::crd(), ClusterAccess::crd()];
    let texts: Result<Vec<_>, _> = definitions.iter().map(serde_saphyr::to_string).collect();
    let fresh = format!("{HEAD}{}", texts?.join("---\n"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &fresh)?;
    }
    let is_current = std::fs::read_to_string(FILE)? == fresh;
    assert!(is_current, "crd.yaml is not up to date: UPDATE=1 cargo test -p kubectl-mc-api --test crd");
    Ok(())
}

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crd.yaml");
const HEAD: &str = "# Generated from the types: UPDATE=1 cargo test -p kubectl-mc-api --test crd\n";
