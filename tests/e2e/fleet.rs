//! The fleet view shows and changes objects of all members as one cluster. Each test has a sidecar of its own, because
//! the view is off by default.

mod hostile;
mod informers;
mod lists;
mod one_member;
mod rights;
mod slow {
    mod members;
}
mod watches;
mod writes;

use anyhow::Result;
use harness::caller::Caller;
use harness::fake_member::FakeMember;
use harness::http1::SIDECAR_NAME;
use harness::own_sidecar::{Difference, OwnSidecar};
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;
use kubectl_mc_api::path::CLUSTERS_PATH;
use serde_json::json;

/// A sidecar that serves the view, and a scene of the same name on each of these members.
struct View {
    sidecar: OwnSidecar,
    scenes: Vec<Scene>,
}

impl View {
    fn new(name: &str, members: &[&str]) -> Result<Self> {
        let difference =
            Difference { flags: &["--fleet-view"], log: Some("info,sidecar=debug"), ..Difference::default() };
        let sidecar = OwnSidecar::with(&difference)?;
        let scenes = members.iter().map(|member| Scene::on(member, name)).collect::<Result<_>>()?;
        Ok(Self { sidecar, scenes })
    }

    /// A view of m1 and a fake member, with a ConfigMap on m1, and a caller of both.
    fn with_fake(name: &str, fake: &FakeMember) -> Result<(Self, Caller)> {
        let view = Self::new(name, &["m1"])?;
        view.config_maps("a")?;
        let caller = Caller::certificate(&format!("e2e-{name}-user"), &[])?;
        view.scenes[0].let_in(&caller, &["m1", &fake.name, "*"], EVERY_VERB)?;
        view.scenes[0].allow(&caller)?;
        let caller = view.at_view(caller)?;
        Ok((view, caller))
    }

    /// A caller who may use these members and the view.
    fn caller(&self) -> Result<Caller> {
        let caller = Caller::certificate(&format!("{}-user", self.scenes[0].name), &[])?;
        let members: Vec<_> = self.scenes.iter().map(|scene| scene.member.as_str()).chain(["*"]).collect();
        self.scenes[0].let_in(&caller, &members, EVERY_VERB)?;
        for scene in &self.scenes {
            scene.allow(&caller)?;
            let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
            let attributes = json!({"resource": "nodes", "verb": "list"});
            harness::scene::grant(&scene.api, &format!("{}-all", scene.name), &caller, &all, &attributes)?;
        }
        self.at_view(caller)
    }

    /// The caller's kubeconfig leads to the view.
    fn at_view(&self, caller: Caller) -> Result<Caller> {
        let sidecar = &self.sidecar.sidecar;
        caller.edit(|config| {
            let cluster = json!({
                "server": format!("{}{CLUSTERS_PATH}/*/proxy", sidecar.url),
                "certificate-authority": sidecar.ca_certificate,
                "tls-server-name": SIDECAR_NAME,
            });
            config["clusters"][0]["cluster"] = cluster;
        })
    }

    fn kubectl(&self) -> Result<Tool> {
        Tool::kubectl(&self.caller()?)
    }

    /// A ConfigMap in the scene of each member.
    fn config_maps(&self, name: &str) -> Result<()> {
        for scene in &self.scenes {
            let path = format!("/api/v1/namespaces/{}/configmaps/{name}", scene.name);
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"test": name}}, "data": {"of": scene.member}});
            scene.api.apply(&path, &object)?;
        }
        Ok(())
    }
}
