//! Fuzzes the reader of certificate requests, which are PEM, or DER that is wrapped in it. The
//! subject that it reads must be the one that a lenient reader sees, and the only one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sidecar::endpoints::admission::certificate_request::{Subject, could_name};
use x509_parser::prelude::{FromDer, Pem, X509CertificationRequest};

pub fn run(input: &[u8]) {
    let pem = if input.starts_with(b"-----") { input.to_vec() } else { wrapped(input) };
    let Ok(read) = Subject::of_pem(&pem) else { return };
    let blocks: Vec<_> = Pem::iter_from_buffer(&pem).collect();
    assert_eq!(blocks.len(), 1, "Go reads the first block only");
    let block = blocks[0].as_ref().expect("a block that was read");
    assert_eq!(block.label, "CERTIFICATE REQUEST");
    let Ok((rest, request)) = X509CertificationRequest::from_der(&block.contents) else {
        // The other reader also parses the key, which does not matter for the subject.
        return;
    };
    assert!(rest.is_empty(), "{} bytes follow", rest.len());
    let info = request.certification_request_info;
    assert_eq!(info.attributes().len(), 0);
    assert_eq!(info.subject.iter_attributes().count(), 2);
    let common_names: Vec<_> = info.subject.iter_common_name().map(|name| name.as_str()).collect();
    let organizations: Vec<_> = info.subject.iter_organization().map(|name| name.as_str()).collect();
    assert_eq!(common_names, [Ok(read.common_name.as_str())]);
    assert_eq!(organizations, [Ok(read.organization.as_str())]);
    assert!(could_name(&pem, &read.common_name) && could_name(&pem, &read.organization));
}

fn wrapped(der: &[u8]) -> Vec<u8> {
    let label = "CERTIFICATE REQUEST";
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der)).into_bytes()
}
