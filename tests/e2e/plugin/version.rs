//! A user without any right to a cluster can read the sidecar's version through the host.

use anyhow::{Result, ensure};
use harness::caller::Caller;
use serde_json::Value;

use crate::plugin;

#[test]
fn version_of_the_sidecar_reaches_every_user() -> Result<()> {
    let nobody = plugin(&Caller::certificate("e2e-version-nobody", &[])?)?;
    let said = nobody.run(&["version", "-o", "json"])?;
    let versions: Value = serde_json::from_str(&said.text())?;
    let own = concat!("v", env!("CARGO_PKG_VERSION"));
    for side in ["clientVersion", "sidecarVersion"] {
        ensure!(versions[side]["gitVersion"] == own, "{said:?}");
    }
    Ok(())
}
