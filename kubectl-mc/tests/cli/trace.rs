//! Tests `KUBECTL_MC_TRACE`: the `traceparent` that the host receives, and a collector that does
//! not answer.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::bed::{Bed, Ran};

const LIST: &str = r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}]}"#;
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn bed() -> Bed {
    Bed::answering((200, "application/json", LIST.to_owned()))
}

/// Runs the plugin with the collector at this address.
fn traced(bed: &Bed, listener: &TcpListener, arguments: &[&str]) -> Ran {
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut command = bed.command(arguments);
    command.env("KUBECTL_MC_TRACE", "otlp").env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    command.env("TRACEPARENT", format!("00-{TRACE}-b7ad6b7169203331-01"));
    command.output().unwrap().into()
}

/// The `traceparent` of each request since the last call.
fn parents(bed: &Bed) -> Vec<Option<String>> {
    let parent = |head: String| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(name, _)| name.eq_ignore_ascii_case("traceparent")).map(|(_, value)| value.to_owned())
    };
    bed.requests().into_iter().map(parent).collect()
}

#[test]
fn late_collector_delays_a_traced_command_by_a_second() {
    let (bed, silent) = (bed().of_known_hub(), TcpListener::bind("127.0.0.1:0").unwrap());
    let plain = bed.run(&["clusters"]);
    assert_eq!((plain.err.as_str(), parents(&bed)), ("", vec![None]));
    let begun = Instant::now();
    let ran = traced(&bed, &silent, &["clusters"]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((ran.code, &ran.out), (plain.code, &plain.out));
    let warning = format!("warning: the trace was not exported to http://{}: ", silent.local_addr().unwrap());
    assert!(ran.err.starts_with(&warning) && ran.err.lines().count() == 1, "{ran:?}");
    let sent = parents(&bed).remove(0).unwrap();
    assert!(sent.starts_with(&format!("00-{TRACE}-")) && !sent.contains("b7ad6b7169203331"), "{sent}");
}

#[test]
fn trace_is_exported_before_kubectl_replaces_the_plugin() {
    let (bed, silent) = (bed(), TcpListener::bind("127.0.0.1:0").unwrap());
    bed.kubectl("echo \"$TRACEPARENT\"");
    let ran = traced(&bed, &silent, &["-C", "m1", "apply", "-f", "x"]);
    assert!(ran.out.starts_with(&format!("00-{TRACE}-")), "{ran:?}");
    assert_eq!((ran.code, ran.err.matches("warning: the trace was not exported").count()), (Some(0), 1));
}

/// They would replace the token of the proxy, or the authority that verifies it.
#[test]
fn credential_flags_lead_kubectl_past_the_trace_proxy() {
    let (bed, silent) = (bed(), TcpListener::bind("127.0.0.1:0").unwrap());
    bed.kubectl("cat \"${KUBECONFIG%%:*}\"");
    for (flags, by_proxy) in
        [(&[][..], true), (&["--token=x"], false), (&["--insecure-skip-tls-verify"], false)]
    {
        let ran = traced(&bed, &silent, &[&["-C", "m1", "apply", "-f", "x"], flags].concat());
        let is_user_of_proxy = ran.out.contains("mc/trace");
        assert_eq!((ran.code, is_user_of_proxy), (Some(0), by_proxy), "{flags:?} {ran:?}");
    }
}

#[test]
fn other_exporters_are_refused() {
    let ran = bed().run_with("KUBECTL_MC_TRACE", "jaeger", &["clusters"]);
    assert_eq!(ran.failed(), (2, "error: KUBECTL_MC_TRACE is \"jaeger\", not \"otlp\"\n"));
}
