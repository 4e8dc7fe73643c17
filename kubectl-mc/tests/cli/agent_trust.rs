//! Tests that an agent gets the CA of the host, or that its join is refused.

use std::fs;

use insta::assert_snapshot;

use crate::agent_join::{bed, enrolling, join};
use crate::bed::Bed;
use crate::tls_server::Authority;

/// A host whose server has a certificate from a public CA: its kubeconfig contains no CA.
#[test]
fn fault_45_enrollment_without_a_known_ca_is_refused() {
    let bed = enrolling();
    let enroll = |flags: &[&str]| {
        let words =
            ["join", "m1", "--agent", "--enroll", "--agent-image=i", "--agent-server=https://h.example"];
        bed.run(&[&words, flags].concat())
    };
    let refused = enroll(&[]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""), "{refused:?}");
    assert_snapshot!(refused.err, @"
    preflight: the sidecar answers on the host
    error: cannot join: the certificate authority of the host's server https://h.example is unknown: the agent would send its token to any server of that name with a certificate of a public authority
    hint: write the root certificate of the host's authority into FILE, and add --agent-server-ca=FILE: `openssl s_client -connect HOST:443 </dev/null` names it at the greatest depth; to accept every public authority: --agent-trust-system-roots
    ");
    assert!(bed.requests().iter().all(|head| !head.starts_with("PATCH ")), "something was written");

    let authority = Authority::new();
    fs::write(bed.path("ca.crt"), authority.pem()).unwrap();
    let pinned = enroll(&["--agent-server-ca=ca.crt"]);
    assert_eq!(pinned.code, Some(0), "{pinned:?}");
    let line = authority.pem().lines().nth(1).unwrap().to_owned();
    assert!(pinned.out.contains("  ca.crt: |") && pinned.out.contains(&line), "{pinned:?}");
    let system = enroll(&["--agent-trust-system-roots"]);
    assert_eq!(system.code, Some(0), "{system:?}");
    assert!(!system.out.contains("  ca.crt:"), "{system:?}");
    let both = enroll(&["--agent-trust-system-roots", "--agent-server-ca=ca.crt"]);
    assert!(both.code == Some(2) && both.err.contains("cannot be used with"), "{both:?}");
}

#[test]
fn fault_45_printed_agent_without_a_known_ca_is_refused() {
    let bed = bed();
    let text = bed.read("kubeconfig").replace(r#", "certificate-authority-data": "UEVN""#, "");
    fs::write(bed.path("kubeconfig"), text).unwrap();
    let print = |flags: &[&str]| join(&bed, &[&["--agent", "--print", "--agent-image=i"], flags].concat());
    let refused = print(&[]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{refused:?}");
    let text = "authority of the host's server https://host.invalid:6443 is unknown";
    assert!(refused.err.contains(text) && refused.err.contains("--agent-server-ca=FILE"), "{refused:?}");
    let system = print(&["--agent-trust-system-roots"]);
    assert_eq!(system.code, Some(0), "{system:?}");
}

#[test]
fn renewal_without_a_usable_ca_changes_nothing() {
    let bed = Bed::answering((200, "application/json", "{}".to_owned()));
    fs::write(bed.path("file"), "nonsense").unwrap();
    let ran = bed.run(&["join", "m1", "--agent", "--renew", "--agent-server-ca=file"]);
    let (code, error) = ran.failed();
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("file is not a PEM bundle of certificate authorities"), "{error}");
    assert!(bed.requests().is_empty());
}
