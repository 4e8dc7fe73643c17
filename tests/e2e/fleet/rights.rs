//! The right to the view opens no member.

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::scene::EVERY_VERB;
use harness::tool::Tool;
use serde_json::Value;

use super::View;

#[test]
fn member_without_the_right_is_left_out() -> Result<()> {
    let view = View::new("fleet-rights", &["m1", "m2"])?;
    view.config_maps("a")?;
    let caller = Caller::certificate("e2e-fleet-rights-one", &[])?;
    view.scenes[0].let_in(&caller, &["m1", "*"], EVERY_VERB)?;
    view.scenes.iter().try_for_each(|scene| scene.allow(&caller))?;
    let kubectl = Tool::kubectl(&view.at_view(caller)?)?;
    let path = "/api/v1/namespaces/e2e-fleet-rights/configmaps?labelSelector=test%3Da";
    let list: Value = serde_json::from_str(&kubectl.ok(&["get", "--raw", path])?)?;
    ensure!(list["items"].as_array().is_some_and(|items| items.len() == 1), "{list}");
    ensure!(!list.to_string().contains("m2"), "{list}");
    let refused = |member: &str| -> Result<String> {
        let namespace = format!("e2e-fleet-rights_{member}");
        let refused = kubectl.run(&["get", "configmaps", "-n", &namespace])?.failure(&["forbidden"])?;
        Ok(refused.replace(member, "<member>"))
    };
    ensure!(refused("m2")? == refused("m99")?, "another answer for a member that does not exist");
    Ok(())
}

#[test]
fn view_needs_a_right_of_its_own() -> Result<()> {
    let view = View::new("fleet-own-right", &["m1"])?;
    let caller = Caller::certificate("e2e-fleet-own-right-one", &[])?;
    view.scenes[0].let_in(&caller, &["m1"], EVERY_VERB)?;
    view.scenes[0].allow(&caller)?;
    let kubectl = Tool::kubectl(&view.at_view(caller)?)?;
    kubectl.run(&["get", "--raw", "/api/v1/pods"])?.failure(&["forbidden"])?;
    Ok(())
}
