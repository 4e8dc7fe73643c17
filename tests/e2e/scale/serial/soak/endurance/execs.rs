//! Users run a command in a pod every other second, alternately with the plugin through the host and with
//! kubectl past it.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::bed::sidecar;
use harness::caller::Caller;
use harness::http1::{Endpoint, SIDECAR_NAME, member_path};
use harness::scene::Scene;
use harness::tool::Tool;

use super::replicas::Serving;
use super::{MEMBER, Tally, add};

pub(super) struct Execs {
    namespace: String,
    caller: Caller,
    through: Tool,
}

impl Execs {
    pub(super) fn new(scene: &Scene, caller: &Caller) -> Result<Self> {
        let through = crate::plugin(caller)?.with(&[&format!("--cluster={MEMBER}")]);
        // The same user, with a separate kubeconfig.
        let caller = Caller::certificate(&caller.user, &[])?;
        Ok(Self { namespace: scene.name.clone(), caller, through })
    }

    pub(super) fn run(&self, replicas: &Receiver<Serving>, tally: &Tally) {
        let mut serving = Serving::new();
        for number in 0.. {
            tally.wait_until(Instant::now() + PAUSE);
            if tally.is_over() {
                return;
            }
            if let Some(now) = replicas.try_iter().last() {
                serving = now;
            }
            add(&tally.execs);
            let past = number % 2 == 0;
            let tool = if past { self.past(serving.get(number / 2 % 2)) } else { Ok(self.through.clone()) };
            let said = tool.and_then(|tool| self.exec(&tool));
            tally.judge(if past { "an exec past the host" } else { "an exec through the host" }, said);
        }
    }

    fn past(&self, replica: Option<&Endpoint>) -> Result<Tool> {
        let replica = replica.context("no replica serves")?;
        let server = format!("https://{}{}", replica.address(), member_path(MEMBER, ""));
        let ca = sidecar()?.ca_certificate.clone();
        let caller = self.caller.clone().edit(|config| {
            let cluster = &mut config["clusters"][0]["cluster"];
            cluster["server"] = server.into();
            cluster["certificate-authority"] = ca.display().to_string().into();
            cluster["tls-server-name"] = SIDECAR_NAME.into();
        })?;
        Tool::kubectl(&caller)
    }

    fn exec(&self, tool: &Tool) -> Result<()> {
        let command = ["exec", "shell", "--namespace", &self.namespace, "--", "sh", "-c"];
        let said = tool.ok(&[&command[..], &["read a; sleep 1; echo $((6 * 7))"]].concat())?;
        ensure!(said == "42\n", "it said {said:?}");
        Ok(())
    }
}

const PAUSE: Duration = Duration::from_secs(2);
