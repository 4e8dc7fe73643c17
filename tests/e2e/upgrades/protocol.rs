//! The two protocols of exec, attach, cp and port-forward. kubectl falls back from the
//! first to the second without a word, so that a test must ask the member which it was.

use anyhow::{Result, ensure};
use harness::audit::AuditLog;
use harness::bed::member;
use harness::caller::Caller;
use harness::scene::Scene;
use harness::tool::Tool;

use crate::plugin_in;

#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    /// The plugin in the scene, held to this protocol.
    pub(crate) fn plugin(self, scene: &Scene, caller: &Caller) -> Result<Tool> {
        let websockets = match self {
            Self::WebSocket => "true",
            Self::Spdy => "false",
        };
        Ok(plugin_in(scene, caller)?
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets))
    }

    /// An error unless the member saw the scene's `subresource` asked for by this protocol alone.
    pub(crate) fn was_used(self, scene: &Scene, subresource: &str) -> Result<()> {
        // A WebSocket begins as a GET, SPDY as kubectl speaks it as a POST.
        let verb = match self {
            Self::WebSocket => "get",
            Self::Spdy => "create",
        };
        let log = AuditLog::of(member(&scene.member)?);
        let events = log.subresource(&scene.name, subresource)?;
        ensure!(!events.is_empty(), "the member saw no {subresource} in {}", scene.name);
        for event in events {
            ensure!(event["verb"] == verb, "{subresource} was asked for by {}, not {verb}", event["verb"]);
        }
        Ok(())
    }

    /// The same in a name.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::WebSocket => "ws",
            Self::Spdy => "spdy",
        }
    }
}

/// Makes two tests of each function: one over WebSocket, one over SPDY.
macro_rules! over_each_protocol {
    ($($promise:ident),* $(,)?) => {
        mod over_websocket {
            $(#[test]
            fn $promise() -> anyhow::Result<()> {
                super::$promise($crate::upgrades::protocol::Protocol::WebSocket)
            })*
        }
        mod over_spdy {
            $(#[test]
            fn $promise() -> anyhow::Result<()> {
                super::$promise($crate::upgrades::protocol::Protocol::Spdy)
            })*
        }
    };
}
pub(crate) use over_each_protocol;
