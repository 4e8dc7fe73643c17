//! `docs/how-to/access-recipes.md` works as written: each recipe's commands run unchanged, and its
//! users get the access that the recipe promises and no more.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use harness::api::Api;
use harness::bed::host;
use harness::caller::Caller;
use harness::tool::Tool;
use harness::wait::{SOON, eventually};
use serde_json::json;

use crate::members::joined::Joined;
use crate::plugin;

#[test]
fn recipe_group_reads_everywhere() -> Result<()> {
    let recipe = Recipe::of("An OIDC group reads everywhere", "e2e-recipe-read", "e2e=recipe-read")?;
    let staff = Caller::certificate("e2e-recipe-read-ann", &["oidc:staff"])?;
    recipe.run()?;
    recipe.can(&staff, &["get", "configmaps", "-n", "default"])?;
    recipe.cannot(&staff, &["get", "secrets", "-n", "default"])?;
    recipe.cannot(&staff, &["create", "configmap", "x", "-n", "default"])
}

#[test]
fn recipe_team_owns_a_namespace() -> Result<()> {
    let recipe = Recipe::of("A team owns a namespace in production", "e2e-recipe-team", "env=prod")?;
    let member = Caller::certificate("e2e-recipe-team-ben", &["oidc:team-shop"])?;
    recipe.run()?;
    recipe.can(&member, &["create", "configmap", "x", "-n", "shop"])?;
    recipe.cannot(&member, &["get", "configmaps", "-n", "default"])
}

#[test]
fn recipe_ci_account_deploys() -> Result<()> {
    let recipe = Recipe::of("A CI account deploys to staging", "e2e-recipe-ci", "env=staging")?;
    let token = recipe.run()?;
    let account = "system:serviceaccount:pipelines:deployer";
    let deployer = Caller::bearer(account, &[], token.lines().last().context("no token")?.to_owned())?;
    recipe.can(&deployer, &["create", "configmap", "x", "-n", "shop"])?;
    recipe.cannot(&deployer, &["get", "configmaps", "-n", "default"])
}

#[test]
fn recipe_break_glass_is_ended_early() -> Result<()> {
    let recipe = Recipe::of("Break-glass for an hour", "prod-1", "e2e=recipe-break-glass")?;
    let jane = Caller::certificate("oidc:jane", &[])?;
    let (grant, revoke) = recipe.commands.split_at(1);
    recipe.all(grant)?;
    recipe.can(&jane, &["create", "configmap", "x", "-n", "shop"])?;
    let list = recipe.joined.admin.ok(&["access", "list"])?;
    let row = list.lines().find(|line| line.starts_with("break-glass-jane")).context("it is not listed")?;
    ensure!(row.contains("59m") || row.contains("60m"), "{row}");
    recipe.all(revoke)?;
    recipe.cannot(&jane, &["get", "configmaps", "-n", "shop"])
}

/// The commands of a recipe, and the member that they use.
struct Recipe {
    commands: Vec<Vec<String>>,
    joined: Joined,
    host: Api,
}

impl Recipe {
    fn of(heading: &str, name: &'static str, label: &str) -> Result<Self> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/how-to/access-recipes.md");
        let page = std::fs::read_to_string(page)?;
        let section = page.split("\n## ").find_map(|section| section.strip_prefix(heading));
        let lines = section.with_context(|| format!("no recipe {heading:?}"))?.lines();
        let commands = lines.filter(|line| line.starts_with("kubectl "));
        let commands = commands.map(|line| line.split(' ').map(str::to_owned).collect()).collect();
        let joined = Joined::under(name)?;
        let labels = format!("--labels={label}");
        joined.admin.ok(&["join", name, "--member-context=member", "--bindable-roles=view,edit", &labels])?;
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        joined.member.apply("/api/v1/namespaces/shop", &shop)?;
        Ok(Self { commands, joined, host: host()? })
    }

    /// Runs all commands, and returns the output of the last one.
    fn run(&self) -> Result<String> {
        self.all(&self.commands)
    }

    fn all(&self, commands: &[Vec<String>]) -> Result<String> {
        ensure!(!commands.is_empty(), "the recipe has no commands");
        let kubectl = Tool::admin(&harness::bed::bed()?.host)?;
        let mut printed = String::new();
        for command in commands {
            let words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
            printed = match words.split_first() {
                Some((&"mc", words)) => self.joined.admin.ok(words)?,
                _ => kubectl.ok(&words)?,
            };
        }
        Ok(printed)
    }

    fn can(&self, who: &Caller, request: &[&str]) -> Result<()> {
        let cluster = format!("--cluster={}", self.joined.name);
        let request: Vec<&str> = [&[cluster.as_str()], request].concat();
        eventually(&format!("{} may {request:?}", who.user), SOON, || plugin(who)?.ok(&request).map(Some))
            .map(drop)
    }

    fn cannot(&self, who: &Caller, request: &[&str]) -> Result<()> {
        let cluster = format!("--cluster={}", self.joined.name);
        let request: Vec<&str> = [&[cluster.as_str()], request].concat();
        eventually(&format!("{} may not {request:?}", who.user), SOON, || {
            let answer = plugin(who)?.run(&request)?;
            Ok((answer.code != 0 && answer.stderr.contains("orbidden")).then_some(()))
        })
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        // The grants of one recipe also select the members of others.
        let accesses = "/apis/fleet.kubectl-mc.dev/v1alpha1/clusteraccesses";
        let Ok(all) = self.host.get(accesses) else { return };
        for access in all["items"].as_array().into_iter().flatten() {
            let (name, subject) = (&access["metadata"]["name"], &access["spec"]["subjects"][0]["name"]);
            let ours = ["oidc:staff", "oidc:team-shop", "deployer", "oidc:jane"];
            if ours.iter().any(|&ours| *subject == ours) {
                let _ = self.host.delete(&format!("{accesses}/{}", name.as_str().unwrap_or_default()));
            }
        }
    }
}
