//! Runs the plugin as a process in a temporary folder, with a fake kubectl that prints its arguments and a
//! fake host that gives the answers of each test.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent_join;
mod agent_trust;
mod answers;
mod audit;
mod authz;
mod bed;
mod choosing;
mod clusters;
mod compare;
mod completion;
mod contexts;
mod direct;
mod direct_reports;
mod doctor;
mod documents;
mod error_texts;
mod explain;
mod fleet;
mod fleet_per_cluster;
mod fleet_writes;
mod hub_api;
mod hub_limits;
mod hub_profiles;
mod hubs;
mod install;
mod install_place;
mod keep;
mod kubeconfig;
mod log;
mod login;
mod man;
mod old_member;
mod one_cluster;
mod partial;
mod piped_kubeconfig;
mod plugin_policy;
mod preflight;
mod promises;
mod revoke;
mod rollouts;
mod route;
mod server_text;
mod short_token;
mod streams;
mod tail;
mod terminal;
mod tls_server;
mod tool_env;
mod tool_shell;
mod trace;
mod unjoin;
mod usage;
mod use_cluster;
