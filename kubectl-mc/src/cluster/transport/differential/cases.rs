//! Named kubeconfigs. The plugin once read each of them differently from kubectl, or they are
//! similar to one that it did.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{ClientGo, Question, compare, folder, write};

mod several_files;

/// A kubeconfig with a context `c` of these fields of its cluster and its user.
fn config(cluster: &str, user: &str) -> String {
    format!(
        "clusters:\n- name: k\n  cluster: {{server: 'https://h:6443'{}{cluster}}}\n\
         users:\n- name: u\n  user: {{{user}}}\n\
         contexts:\n- name: c\n  context: {{cluster: k, user: u}}\n",
        if cluster.is_empty() { "" } else { ", " }
    )
}

pub(super) fn authority() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["h".to_owned()]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = parameters.self_signed(&key).unwrap().pem();
    (pem, key.serialize_pem())
}

/// Compares each of these users, and returns whether both programs accept it.
fn outcomes(kubeconfigs: &[(&str, Vec<u8>)]) -> Vec<(String, bool)> {
    let mut client_go = ClientGo::start();
    let mut failed = Vec::new();
    let mut outcomes = Vec::new();
    for (name, text) in kubeconfigs {
        let (folder, question) = folder(text);
        for (file, content) in [("token", "from-file\n"), ("empty", ""), ("blank", " \n"), ("two", "a\nb")] {
            write(folder.path(), file, content.as_bytes());
        }
        match compare(&mut client_go, &question) {
            Ok(answer) => outcomes.push(((*name).to_owned(), answer.error.is_empty())),
            Err(difference) => failed.push(format!("{name}: {difference}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    outcomes
}

fn assert_outcomes(kubeconfigs: &[(&str, String, bool)]) {
    let asked: Vec<_> =
        kubeconfigs.iter().map(|(name, text, _)| (*name, text.clone().into_bytes())).collect();
    let expected: Vec<_> = kubeconfigs.iter().map(|(name, _, works)| ((*name).to_owned(), *works)).collect();
    assert_eq!(outcomes(&asked), expected);
}

#[test]
fn one_unusable_entry_hides_no_other() {
    let good = config("", "token: t");
    let with = |other: &str| format!("{good}{other}");
    let users = |entry: &str| good.replace("contexts:\n", &format!("{entry}contexts:\n"));
    assert_outcomes(&[
        ("context without cluster", with("- name: x\n  context: {user: u}\n"), true),
        ("context with null cluster", with("- name: x\n  context: {cluster: ~}\n"), true),
        ("context without context", with("- name: x\n"), true),
        ("unnamed context", with("- context: {cluster: k}\n"), true),
        ("null context", with("- ~\n"), true),
        ("two null contexts", with("- ~\n- ~\n"), false),
        (
            "auth-provider with null config",
            users("- {name: p, user: {auth-provider: {name: oidc, config: ~}}}\n"),
            true,
        ),
        (
            "auth-provider with null value",
            users("- {name: p, user: {auth-provider: {name: x, config: {a: ~}}}}\n"),
            true,
        ),
        (
            "auth-provider with a number",
            users("- {name: p, user: {auth-provider: {name: x, config: {a: 1}}}}\n"),
            false,
        ),
        ("extension without body", users("- {name: p, user: {extensions: [{name: e}]}}\n"), true),
        (
            "extensions with one name",
            users("- {name: p, user: {extensions: [{name: e, extension: {}}, {name: e}]}}\n"),
            false,
        ),
        (
            "empty extensions with one name",
            users("- {name: p, user: {extensions: [{name: e}, {name: e}]}}\n"),
            true,
        ),
        ("null boolean", users("- {name: p, user: {exec: {provideClusterInfo: ~}}}\n"), true),
        ("null env value", users("- {name: p, user: {exec: {env: [{name: A, value: ~}, ~]}}}\n"), true),
        ("unknown interactive mode", users("- {name: p, user: {exec: {interactiveMode: Maybe}}}\n"), true),
        ("duplicate keys", good.replace("token: t", "token: first, token: last"), true),
        ("duplicate lists", with("users:\n- {name: u, user: {token: last}}\n"), true),
        ("one user name twice", users("- {name: u, user: {token: other}}\n"), false),
        ("second document", with("---\nusers: [{name: u, user: {token: other}}]\n"), true),
        ("broken second document", with("---\nusers: [\n"), true),
        ("anchors", good.replace("{token: t}", "&a {token: t}\n- {name: v, user: *a}"), true),
        ("merge key", good.replace("{token: t}", "{<<: {token: merged}, as: jane}"), true),
        ("unknown fields", with("future: {a: [1]}\n"), true),
        ("wrong case", good.replace("token: t", "Token: t"), true),
        ("number as token", good.replace("token: t", "token: 12345"), false),
        ("word of YAML 1.1 as token", good.replace("token: t", "token: on"), false),
        ("date as token", good.replace("token: t", "token: 2020-01-02"), true),
        ("number as name", good.replace("name: u\n", "name: 1\n"), false),
        ("kind", with("kind: Config\napiVersion: v1\n"), true),
        ("other kind", with("kind: Secret\n"), false),
        ("other version", with("apiVersion: v2\n"), false),
        ("preferences", with("preferences: {colors: yes}\n"), true),
        ("list as preferences", with("preferences: []\n"), false),
        ("map as list", "clusters: {}\n".to_owned(), false),
        ("tab", good.replace("  user:", "\tuser:"), false),
    ]);
}

#[test]
fn encodings_are_those_of_kubectl() {
    let good = config("", "token: é");
    let utf16 = |order: fn(u16) -> [u8; 2], mark: [u8; 2]| {
        mark.into_iter().chain(good.encode_utf16().flat_map(order)).collect::<Vec<u8>>()
    };
    let outcomes = outcomes(&[
        ("UTF-16, little endian", utf16(u16::to_le_bytes, [0xff, 0xfe])),
        ("UTF-16, big endian", utf16(u16::to_be_bytes, [0xfe, 0xff])),
        ("UTF-16 without a mark", utf16(u16::to_le_bytes, *b"#\n")),
        ("UTF-8 with a mark", [b"\xef\xbb\xbf", good.as_bytes()].concat()),
        ("Latin-1", b"# \xe9\n".iter().copied().chain(good.bytes()).collect()),
        ("JSON", serde_json::to_vec(&crate::cluster::context::read_yaml(good.as_bytes()).unwrap()).unwrap()),
        ("empty", Vec::new()),
    ]);
    let works: Vec<_> = outcomes.iter().map(|(_, works)| *works).collect();
    assert_eq!(works, [true, true, false, true, false, true, false], "{outcomes:?}");
}

#[test]
fn credential_is_that_of_kubectl() {
    let user = |user: &str| config("", user);
    let exec = "exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never";
    assert_outcomes(&[
        ("token", user("token: t"), true),
        ("token with a line break", user("token: \"t\\n\""), false),
        ("token with a control character", user("token: \"a\\tb\\x01\""), false),
        ("tokenFile with a line break", user("tokenFile: token"), true),
        ("empty tokenFile", user("tokenFile: empty"), false),
        ("blank tokenFile", user("tokenFile: blank"), false),
        ("tokenFile with a line break inside", user("tokenFile: two"), false),
        ("missing tokenFile", user("tokenFile: missing"), false),
        ("token and tokenFile", user("token: t, tokenFile: token"), true),
        ("token and empty tokenFile", user("token: t, tokenFile: empty"), true),
        ("token and missing tokenFile", user("token: t, tokenFile: missing"), true),
        ("empty token with tokenFile", user("token: '', tokenFile: token"), true),
        ("empty client-certificate", user("token: t, client-certificate: '', client-key: ''"), true),
        ("missing client-certificate", user("client-certificate: missing, client-key: missing"), false),
        ("certificate without key", user("client-certificate: token"), false),
        ("key without certificate", user("client-key: missing"), true),
        ("name and password", user("username: jane, password: p"), true),
        ("name without password", user("username: jane"), true),
        ("password without name", user("password: p"), true),
        ("token and name", user("token: t, username: jane"), false),
        ("tokenFile and name", user("tokenFile: token, username: jane"), false),
        ("token and exec", user(&format!("token: t, {exec}}}")), true),
        ("name and exec", user(&format!("username: jane, {exec}}}")), true),
        ("exec", user(&format!("{exec}, args: [a], env: [{{name: A, value: b}}]}}")), true),
        (
            "exec of a relative path",
            user(&format!("{}}}", exec.replace("command: x", "command: ./bin/x"))),
            true,
        ),
        ("exec with unknown mode", user(&format!("{}}}", exec.replace("Never", "Maybe"))), false),
        ("exec without mode", user("exec: {command: x, apiVersion: client.authentication.k8s.io/v1}"), false),
        (
            "old exec without mode",
            user("exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1}"),
            true,
        ),
        (
            "exec of a removed version",
            user("exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}"),
            false,
        ),
        (
            "exec without command",
            user("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"),
            false,
        ),
        ("exec with an unnamed variable", user(&format!("{exec}, env: [{{value: b}}]}}")), false),
        ("exec and auth-provider", user(&format!("{exec}}}, auth-provider: {{name: oidc}}")), false),
        ("null exec", user("exec: ~, token: t"), true),
        ("removed auth-provider", user("auth-provider: {name: gcp, config: {access-token: t}}"), false),
        (
            "impersonation",
            user("token: t, as: jane, as-uid: x, as-groups: [a, b], as-user-extra: {Reason: [r]}"),
            true,
        ),
        ("groups without a user", user("token: t, as-groups: [a]"), false),
        ("user with a line break", user("token: t, as: \"jane\\n\""), false),
        ("no credential", user(""), true),
    ]);
}

#[test]
fn nothing_secret_is_sent_without_tls() {
    let http = |server: &str, user: &str| config("", user).replace("https://h:6443", server);
    assert_outcomes(&[
        ("http", http("http://h:8080", "token: t, as: jane"), true),
        ("host and port", http("h:8080", "token: t"), true),
        (
            "contradictions of TLS",
            config(
                "insecure-skip-tls-verify: true, certificate-authority-data: QUJD",
                "tokenFile: token, username: a",
            )
            .replace("https://h:6443", "http://h"),
            true,
        ),
        ("host", http("h", "username: a, password: b"), true),
        ("name in the URL", http("https://a:b%20c@h", "token: t"), true),
        ("name in a URL without TLS", http("http://a:b@h/x", "token: t"), true),
        ("host with a path", http("h/x", "token: t"), false),
        ("no host", http("https://", "token: t"), false),
        ("path and query", http("https://h/a/b/?x=1#y", "token: t"), true),
    ]);
}

#[test]
fn trust_is_that_of_kubectl() {
    let (pem, key) = authority();
    let (encoded, encoded_key) = (STANDARD.encode(&pem), STANDARD.encode(&key));
    let other = authority();
    let data =
        |text: &str| config(&format!("certificate-authority-data: {}", STANDARD.encode(text)), "token: t");
    let broken = pem.replacen("MII", "AAA", 1);
    let wrapped: String =
        encoded.as_bytes().chunks(64).map(|line| format!("{}\\n", str::from_utf8(line).unwrap())).collect();
    let certificate = |key: &str| {
        config("", &format!("client-certificate-data: {encoded}, client-key-data: {}", STANDARD.encode(key)))
    };
    assert_outcomes(&[
        ("authority", data(&pem), true),
        (
            "base64 with line breaks",
            config(&format!("certificate-authority-data: \"{wrapped}\""), "token: t"),
            true,
        ),
        ("base64 of something else", data("no certificate"), false),
        ("no base64", config("certificate-authority-data: '%%'", "token: t"), false),
        ("undecodable certificate before", data(&format!("{broken}{pem}")), true),
        ("undecodable certificate after", data(&format!("{pem}{broken}")), true),
        ("only an undecodable certificate", data(&broken), false),
        (
            "bad base64 inside",
            data(&format!("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n{pem}")),
            true,
        ),
        ("block without an end", data(&format!("-----BEGIN CERTIFICATE-----\nQUJD\n{pem}")), true),
        ("block with headers", data(&pem.replacen("-----\n", "-----\nA: b\n\n", 1)), false),
        ("text between", data(&format!("# one\n{pem}\n# two\n{}", other.0)), true),
        ("key among them", data(&format!("{key}{pem}")), true),
        ("missing file", config("certificate-authority: missing", "token: t"), false),
        (
            "file and data",
            config(
                &format!("certificate-authority: token, certificate-authority-data: {encoded}"),
                "token: t",
            ),
            false,
        ),
        ("insecure", config("insecure-skip-tls-verify: true", "token: t"), true),
        (
            "insecure with data",
            config(
                &format!("insecure-skip-tls-verify: true, certificate-authority-data: {encoded}"),
                "token: t",
            ),
            false,
        ),
        (
            "insecure with file",
            config("insecure-skip-tls-verify: true, certificate-authority: token", "token: t"),
            false,
        ),
        ("server name", config("tls-server-name: other.example", "token: t"), true),
        ("certificate", certificate(&key), true),
        ("certificate with another key", certificate(&other.1), false),
        ("certificate without a key in PEM", certificate("no key"), false),
        (
            "certificate and exec",
            config(
                "",
                &format!(
                    "client-certificate-data: {encoded}, client-key-data: {encoded_key}, exec: {{command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}"
                ),
            ),
            true,
        ),
        (
            "certificate twice",
            config(
                "",
                &format!(
                    "client-certificate-data: {encoded}, client-certificate: token, client-key-data: {encoded_key}"
                ),
            ),
            false,
        ),
    ]);
}

#[test]
fn proxy_is_that_of_kubectl() {
    let mut client_go = ClientGo::start();
    let ask = |client_go: &mut ClientGo, server: &str, url: &str, environment: &[(&str, &str)]| {
        let cluster = if url.is_empty() { String::new() } else { format!("proxy-url: '{url}'") };
        let (_folder, question) =
            folder(config(&cluster, "token: t").replace("https://h:6443", server).as_bytes());
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let question = Question { environment: environment.collect(), ..question };
        compare(client_go, &question).unwrap_or_else(|difference| panic!("{difference}"))
    };
    let https = [("HTTPS_PROXY", "http://p:3128"), ("HTTP_PROXY", "plain:80")];
    for server in [
        "https://h:6443",
        "https://10.1.2.3:6443",
        "https://api.example.com",
        "http://h:80",
        "https://[fd00::1]:6443",
        "https://localhost:1",
        "https://127.0.0.1:1",
    ] {
        for no in [
            "",
            "*",
            "h",
            "h:6443",
            "h:443",
            "10.0.0.0/8",
            "10.1.2.3:6443",
            "10.1.2.3",
            "example.com",
            ".example.com",
            "*.example.com",
            "api.example.com:443",
            "fd00::/8",
            "[fd00::1]:6443",
            "fd00::1",
            " h , x",
            "xh",
            "com",
            "2.3",
            "10.1.2.0/33",
            ":6443",
            "[fd00::1]",
        ] {
            let environment = [&https[..], &[("NO_PROXY", no)]].concat();
            ask(&mut client_go, server, "", &environment);
        }
    }
    for url in [
        "http://p:3128",
        "https://p",
        "socks5://p:1080",
        "socks5h://p:1080",
        "p:3128",
        "ftp://p",
        "HTTP://p",
        "//p",
        "http://a:b@p:3128",
    ] {
        ask(&mut client_go, "https://h:6443", url, &[("NO_PROXY", "*")]);
        if url != "//p" {
            ask(&mut client_go, "https://h:6443", "", &[("https_proxy", url)]);
        }
    }
}
