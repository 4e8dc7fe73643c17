use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::*;

pub(in crate::endpoints::admission) const AGENT: &[(DnType, &str)] =
    &[(DnType::OrganizationName, "system:karmada:agents"), (DnType::CommonName, "system:karmada:agent:a")];

/// A request that a library creates, with these names.
pub(in crate::endpoints::admission) fn pem(names: &[(DnType, &str)], sans: Vec<SanType>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in names {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.subject_alt_names = sans;
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    request.pem().unwrap().replace("\r\n", "\n")
}

fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut value = match length {
        0..128 => vec![tag, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    value.extend(content);
    value
}

fn attribute(oid: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
    value(0x30, &[&value(6, &[oid]), &value(tag, &[text])])
}

fn name(tag: u8, text: &[u8]) -> Vec<u8> {
    value(0x31, &[&attribute(COMMON_NAME, tag, text)])
}

fn organization() -> Vec<u8> {
    value(0x31, &[&attribute(ORGANIZATION, 19, b"system:karmada:agents")])
}

/// A request with this content of its subject and its attributes.
fn request(subject: &[&[u8]], attributes: &[&[u8]]) -> Vec<u8> {
    let algorithm = value(0x30, &[&value(6, &[&[0x2b, 0x65, 0x70]])]);
    let key = value(0x30, &[&algorithm, &value(3, &[&[0; 33]])]);
    let info = value(0x30, &[&[2, 1, 0], &value(0x30, subject), &key, &value(0xa0, attributes)]);
    value(0x30, &[&info, &algorithm, &value(3, &[&[0; 65]])])
}

pub(in crate::endpoints::admission) fn encoded(der: &[u8]) -> String {
    format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der))
}

/// A request in which a reader that uses the last name sees the agent of cluster b.
pub(in crate::endpoints::admission) fn with_two_names() -> String {
    let (a, b) = (name(19, b"system:karmada:agent:a"), name(19, b"system:karmada:agent:b"));
    encoded(&request(&[&organization(), &a, &b], &[]))
}

#[test]
fn agent_subject_is_parsed_from_every_library() {
    let expected = Subject {
        common_name: "system:karmada:agent:a".to_owned(),
        organization: "system:karmada:agents".to_owned(),
    };
    assert_eq!(Subject::of_pem(pem(AGENT, vec![]).as_bytes()).as_ref(), Ok(&expected));
    // Go writes PrintableStrings and the organization first; openssl writes UTF8Strings in the given order.
    for tag in [12, 19] {
        let common_name = name(tag, b"system:karmada:agent:a");
        for subject in [[organization(), common_name.clone()], [common_name.clone(), organization()]] {
            let der = request(&[&subject[0], &subject[1]], &[]);
            assert_eq!(Subject::of_der(&der).as_ref(), Ok(&expected));
        }
    }
    let windows = pem(AGENT, vec![]).replace('\n', "\r\n");
    assert_eq!(Subject::of_pem(windows.as_bytes()).as_ref(), Ok(&expected));
}

#[test]
fn ambiguous_subject_is_refused() {
    let cn = |text: &[u8]| attribute(COMMON_NAME, 19, text);
    let (a, b) = (cn(b"system:karmada:agent:a"), cn(b"system:karmada:agent:b"));
    let own = name(19, b"system:karmada:agent:a");
    let unit = value(0x31, &[&attribute(&[0x55, 4, 11], 19, b"x")]);
    let uid = attribute(&[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x3f, 2], 19, b"1");
    let second = value(0x31, &[&attribute(ORGANIZATION, 19, b"system:masters")]);
    let subjects: Vec<Vec<Vec<u8>>> = vec![
        vec![organization(), own.clone(), name(19, b"system:karmada:agent:b")],
        vec![organization(), value(0x31, &[&a, &b])],
        vec![organization(), second, own.clone()],
        vec![organization(), own.clone(), unit],
        vec![organization(), own.clone(), value(0x31, &[&uid])],
        vec![organization(), own.clone(), value(0x31, &[])],
        vec![organization(), own.clone(), vec![0, 0]],
        vec![organization(), own.clone(), b"garbage".to_vec()],
        vec![own.clone()],
        vec![organization()],
        vec![],
        // T61String, BMPString, UniversalString, and characters that look alike or end a string.
        vec![organization(), name(20, b"system:karmada:agent:a")],
        vec![organization(), name(30, b"\0a")],
        vec![organization(), name(28, b"\0\0\0a")],
        vec![organization(), name(12, "system:karmada:agent:\u{430}".as_bytes())],
        vec![organization(), name(12, b"system:karmada:agent:a\0")],
        vec![organization(), name(12, b"system:karmada:agent:a ")],
        vec![organization(), name(12, b"")],
    ];
    for subject in subjects {
        let parts: Vec<_> = subject.iter().map(Vec::as_slice).collect();
        let read = Subject::of_der(&request(&parts, &[]));
        assert!(matches!(read, Err(Unreadable::Subject | Unreadable::Structure)), "{subject:?}: {read:?}");
    }
}

#[test]
fn request_with_other_names_or_extensions_is_refused() {
    let san = |san| Subject::of_pem(pem(AGENT, vec![san]).as_bytes());
    for kind in [
        SanType::DnsName("kubernetes.default.svc".try_into().unwrap()),
        SanType::IpAddress([10, 0, 0, 1].into()),
        SanType::Rfc822Name("jane@example.com".try_into().unwrap()),
        SanType::URI("spiffe://x".try_into().unwrap()),
    ] {
        assert_eq!(san(kind.clone()), Err(Unreadable::Attributes), "{kind:?}");
    }
    let own = name(19, b"system:karmada:agent:a");
    // A challenge password, and bytes that are not an attribute.
    for attributes in [&[0x30, 0][..], &[0xa0, 0], &[0], b"garbage"] {
        let read = Subject::of_der(&request(&[&organization(), &own], &[attributes]));
        assert_eq!(read, Err(Unreadable::Attributes), "{attributes:?}");
    }
}

#[test]
fn pem_with_more_than_one_block_is_refused() {
    let own = pem(AGENT, vec![]);
    let read = |pem: &str| Subject::of_pem(pem.as_bytes()).unwrap_err();
    let headers = own.replacen('\n', "\nProc-Type: 4,ENCRYPTED\n\n", 1);
    let other_kind = own.replace("CERTIFICATE REQUEST", "CERTIFICATE");
    let body = own.trim_end().strip_prefix(BEGIN).unwrap().strip_suffix(END).unwrap();
    let cases = [
        format!("{own}{own}"),
        format!("{}{own}", with_two_names()),
        format!("x{own}"),
        format!("{own}x"),
        headers,
        other_kind.clone(),
        format!("{other_kind}{own}"),
        format!("{BEGIN}{body}\0{END}"),
        // Readers interpret a single carriage return differently.
        own.replacen('\n', "\n\r", 1),
        own.replacen('\n', "\r\r\n", 2),
        BEGIN.to_owned(),
        String::new(),
        "\0".repeat(100),
    ];
    for case in cases {
        assert_eq!(read(&case), Unreadable::Pem, "{case:?}");
    }
    assert_eq!(read(&"x".repeat(MAX_PEM + 1)), Unreadable::Size);
}

#[test]
fn truncated_or_trailing_der_is_refused() {
    let own = request(&[&organization(), &name(19, b"system:karmada:agent:a")], &[]);
    assert!(Subject::of_der(&own).is_ok());
    for end in 0..own.len() {
        assert!(Subject::of_der(&own[..end]).is_err(), "{end}");
    }
    assert_eq!(Subject::of_der(&[own.as_slice(), &[0]].concat()), Err(Unreadable::Structure));
    // An indefinite length, which only BER allows.
    let mut indefinite = own.clone();
    indefinite[1] = 0x80;
    assert!(Subject::of_der(&indefinite).is_err());
    let nested: Vec<u8> = [0x30, 0x80].repeat(8_000);
    assert!(Subject::of_der(&nested).is_err());
}

#[test]
fn name_is_found_in_every_encoding() {
    let agent = "system:karmada:agent";
    let wide: Vec<u8> = agent.bytes().flat_map(|byte| [0, byte]).collect();
    let wider: Vec<u8> = agent.bytes().flat_map(|byte| [0, 0, 0, byte]).collect();
    for (tag, text) in [(19, agent.as_bytes()), (20, agent.as_bytes()), (30, &wide), (28, &wider)] {
        assert!(could_name(encoded(&request(&[&name(tag, text)], &[])).as_bytes(), agent), "{tag}");
    }
    assert!(could_name(b"garbage", agent), "what is not read could name an agent");
    assert!(!could_name(pem(&[(DnType::CommonName, "jane")], vec![]).as_bytes(), agent));
}
