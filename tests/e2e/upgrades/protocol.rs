//! exec, attach, cp and port-forward have two protocols. kubectl falls back from the first to the second
//! silently, so a test reads the protocol from the member's audit log.

use anyhow::{Result, ensure};
use harness::audit::AuditLog;
use harness::bed::member;
use harness::caller::Caller;
use harness::own_agent;
use harness::scene::{EVERY_VERB, Scene};
use harness::tool::Tool;

use crate::{plugin, plugin_in};

#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    WebSocket,
    Spdy,
    /// The same two through the tunnel of the member's agent.
    WebSocketByAgent,
    SpdyByAgent,
}

impl Protocol {
    /// The plugin in the scene, using only this protocol.
    pub(crate) fn plugin(self, scene: &Scene, caller: &Caller) -> Result<Tool> {
        let websockets = if self.is_web_socket() { "true" } else { "false" };
        let plugin = match self {
            Self::WebSocket | Self::Spdy => plugin_in(scene, caller)?,
            Self::WebSocketByAgent | Self::SpdyByAgent => {
                let cluster = &own_agent::shared()?.cluster;
                scene.let_in(caller, &[cluster, &scene.member], EVERY_VERB)?;
                plugin(caller)?.with(&[&format!("--cluster={cluster}"), "--namespace", &scene.name])
            }
        };
        Ok(plugin
            .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets))
    }

    /// Checks that the member got requests for the scene's `subresource` only over this protocol.
    pub(crate) fn was_used(self, scene: &Scene, subresource: &str) -> Result<()> {
        // A WebSocket starts as a GET, kubectl's SPDY as a POST.
        let verb = if self.is_web_socket() { "get" } else { "create" };
        let log = AuditLog::of(member(&scene.member)?);
        let events = log.subresource(&scene.name, subresource)?;
        ensure!(!events.is_empty(), "the member saw no {subresource} in {}", scene.name);
        for event in events {
            ensure!(event["verb"] == verb, "{subresource} was asked for by {}, not {verb}", event["verb"]);
        }
        Ok(())
    }

    /// Checks that the member got requests for the scene's `subresource` over WebSocket, and then over SPDY.
    pub(crate) fn fell_back_to_spdy(scene: &Scene, subresource: &str) -> Result<()> {
        let events = AuditLog::of(member(&scene.member)?).subresource(&scene.name, subresource)?;
        let mut verbs: Vec<_> = events.iter().map(|event| event["verb"].as_str()).collect();
        verbs.dedup();
        ensure!(verbs == [Some("get"), Some("create")], "{subresource} was asked for by {verbs:?}");
        Ok(())
    }

    /// The protocol as part of a name.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::WebSocket => "ws",
            Self::Spdy => "spdy",
            Self::WebSocketByAgent => "ws-agent",
            Self::SpdyByAgent => "spdy-agent",
        }
    }

    fn is_web_socket(self) -> bool {
        matches!(self, Self::WebSocket | Self::WebSocketByAgent)
    }
}

/// Makes two tests from each function: one over WebSocket, one over SPDY.
macro_rules! over_each_protocol {
    ($($promise:ident),* $(,)?) => {
        $crate::upgrades::protocol::over!(over_websocket, WebSocket, $($promise),*);
        $crate::upgrades::protocol::over!(over_spdy, Spdy, $($promise),*);
    };
}
pub(crate) use over_each_protocol;

/// Makes four tests from each function: over each protocol, directly and through an agent's tunnel.
macro_rules! over_each_way {
    ($($promise:ident),* $(,)?) => {
        $crate::upgrades::protocol::over_each_protocol!($($promise),*);
        $crate::upgrades::protocol::over!(over_websocket_by_agent, WebSocketByAgent, $($promise),*);
        $crate::upgrades::protocol::over!(over_spdy_by_agent, SpdyByAgent, $($promise),*);
    };
}
pub(crate) use over_each_way;

/// Makes a test from each function over one protocol.
macro_rules! over {
    ($name:ident, $protocol:ident, $($promise:ident),*) => {
        mod $name {
            $(#[test]
            fn $promise() -> anyhow::Result<()> {
                super::$promise($crate::upgrades::protocol::Protocol::$protocol)
            })*
        }
    };
}
pub(crate) use over;
