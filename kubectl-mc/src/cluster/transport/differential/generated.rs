//! Random kubeconfigs, built from relevant fields and values.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::{ClientGo, Question, compare, folder, write};

/// A line of a map in flow style: a field with one of its values. Most values are valid.
fn field(name: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(values).prop_map(move |value| format!("{name}: {value}"))
}

/// Some of these fields, each at most once or twice.
fn fields(of: Vec<BoxedStrategy<String>>) -> impl Strategy<Value = String> {
    let chosen = of.into_iter().map(|field| prop::option::weighted(0.1, field)).collect::<Vec<_>>();
    (chosen, prop::bool::weighted(0.05)).prop_map(|(chosen, twice)| {
        let mut chosen: Vec<_> = chosen.into_iter().flatten().collect();
        if twice && let Some(first) = chosen.first().cloned() {
            chosen.push(first);
        }
        format!("{{{}}}", chosen.join(", "))
    })
}

const TEXTS: &[&str] = &[
    "a",
    "''",
    "~",
    "1",
    "yes",
    "\"line\\n\"",
    "2020-01-02",
    "[a]",
    "'é'",
    "0x1F",
    "!!str 1",
    "1.5e3",
    "{a: b}",
];
const WORDS: &[&str] = &["a", "a", "a", "b", "''", "~"];
const FLAGS: &[&str] = &["true", "false", "yes", "~", "on", "off", "'true'", "1"];

fn cluster() -> impl Strategy<Value = String> {
    let server = field(
        "server",
        &["'https://h:6443'", "'https://h:6443/x/'", "'http://h'", "h", "'h:1'", "''", "~", "'h/x'"],
    );
    let other = fields(vec![
        field("tls-server-name", &["a.example", "''", "~", "10.0.0.1"]).boxed(),
        field("insecure-skip-tls-verify", FLAGS).boxed(),
        field("certificate-authority", &["''", "~", "ca.pem", "missing"]).boxed(),
        field("certificate-authority-data", &["''", "~", "CA", "QUJD", "'%'", "[1, 2]"]).boxed(),
        field("proxy-url", &["'http://p:1'", "'socks5://p'", "'socks5h://p'", "''", "~", "p"]).boxed(),
        field("disable-compression", FLAGS).boxed(),
        field("extensions", &["[]", "~", "[{name: e}]", "[{name: e, extension: {a: 1}}, {name: e}]", "[~]"])
            .boxed(),
        field("unknown", TEXTS).boxed(),
    ]);
    (prop::option::weighted(0.95, server), other).prop_map(|(server, other)| match server {
        Some(server) if other == "{}" => format!("{{{server}}}"),
        Some(server) => other.replacen('{', &format!("{{{server}, "), 1),
        None => other,
    })
}

fn user() -> impl Strategy<Value = String> {
    let exec = fields(vec![
        field("command", &["a", "a", "./a", "''"]).boxed(),
        field(
            "apiVersion",
            &["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1", "v1"],
        )
        .boxed(),
        field("interactiveMode", &["Never", "IfAvailable", "Always", "Odd", "~"]).boxed(),
        field("args", &["[a, ~]", "[]", "~", "[1]"]).boxed(),
        field("env", &["[{name: A, value: b}]", "[{name: A}]", "[~]", "~"]).boxed(),
        field("provideClusterInfo", FLAGS).boxed(),
        field("installHint", WORDS).boxed(),
    ]);
    let usable =
        Just("{command: a, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}".to_owned());
    let exec = prop_oneof![usable, exec, Just("~".to_owned())].prop_map(|exec| format!("exec: {exec}"));
    fields(vec![
        field("token", TEXTS).boxed(),
        field("tokenFile", &["token", "token", "empty", "missing", "''", "~"]).boxed(),
        field("username", WORDS).boxed(),
        field("password", WORDS).boxed(),
        field("client-certificate", &["''", "~", "ca.pem", "missing"]).boxed(),
        field("client-certificate-data", &["CA", "QUJD", "''", "~"]).boxed(),
        field("client-key", &["''", "~", "key.pem", "missing"]).boxed(),
        field("client-key-data", &["KEY", "KEY", "QUJD", "''", "~"]).boxed(),
        field("as", WORDS).boxed(),
        field("as-uid", WORDS).boxed(),
        field("as-groups", &["[a, b]", "[]", "~", "[~]"]).boxed(),
        field("as-user-extra", &["{a: [b]}", "{}", "~", "{a: ~}"]).boxed(),
        field(
            "auth-provider",
            &["~", "{name: gcp}", "{name: oidc, config: ~}", "{name: oidc, config: {a: ~}}"],
        )
        .boxed(),
        exec.boxed(),
    ])
}

/// A kubeconfig whose context `c` is usable in more than half of the cases, among other entries.
fn kubeconfig() -> impl Strategy<Value = String> {
    let context = fields(vec![
        field("namespace", &["n", "''", "~", "N_"]).boxed(),
        field("extensions", &["~", "[{name: e}]"]).boxed(),
    ]);
    let odd = prop::sample::select(
        &[
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "- ~\n",
            "- {name: odd}\n",
            "- {name: ~}\n",
            "- {name: odd, cluster: ~, user: ~, context: ~}\n",
            "- {name: k}\n",
            "- {name: 7}\n",
        ][..],
    );
    let tail = prop::sample::select(
        &[
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            "kind: Config\n",
            "apiVersion: v1\n",
            "kind: X\n",
            "preferences: {}\n",
            "preferences: {colors: 1}\n",
            "---\nusers: 1\n",
            "current-context: c\n",
            "current-context: ~\n",
            "extensions: ~\n",
            "# end",
        ][..],
    );
    let odd = [odd.clone(), odd.clone(), odd];
    let few = prop_oneof![
        4 => prop::sample::select(&["{token: t}", "{tokenFile: token}", "{username: a, password: b}", "{}"][..]).prop_map(str::to_owned),
        1 => user(),
    ];
    (cluster(), few, user(), context, odd, tail).prop_map(|(cluster, user, other, context, odd, tail)| {
        let context = match context.as_str() {
            "{}" => "{cluster: k, user: u}".to_owned(),
            context => context.replacen('{', "{cluster: k, user: u, ", 1),
        };
        let [clusters, users, contexts] = odd;
        format!(
            "clusters:\n- {{name: k, cluster: {cluster}}}\n{clusters}\
             users:\n- {{name: u, user: {user}}}\n- {{name: other, user: {other}}}\n{users}\
             contexts:\n- {{name: c, context: {context}}}\n{contexts}{tail}"
        )
    })
}

#[test]
fn generated_kubeconfigs_are_read_as_by_client_go() {
    let (pem, key) = super::cases::authority();
    let [authority, private] =
        [&pem, &key].map(|text| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text));
    let client_go = std::cell::RefCell::new(ClientGo::start());
    let (accepted, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let check = |text: String| {
        let text = text.replace(": CA", &format!(": {authority}")).replace(": KEY", &format!(": {private}"));
        let (folder, question) = folder(text.as_bytes());
        for (file, content) in
            [("token", "t\n"), ("empty", ""), ("ca.pem", pem.as_str()), ("key.pem", key.as_str())]
        {
            write(folder.path(), file, content.as_bytes());
        }
        if is_known_difference(&text, &question) {
            return Ok(());
        }
        let answer = compare(&mut client_go.borrow_mut(), &question).map_err(TestCaseError::fail)?;
        let counter = if answer.error.is_empty() { &accepted } else { &refused };
        counter.set(counter.get() + 1);
        Ok(())
    };
    // Each run uses the same kubeconfigs; KUBECONFIG_CASES sets their number. With
    // KUBECONFIG_SECONDS, each run uses different ones, for this time.
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    let mut cases = number("KUBECONFIG_CASES").unwrap_or(600);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config.clone(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut result = runner.run(&kubeconfig(), check);
    if let Some(seconds) = number("KUBECONFIG_SECONDS") {
        let (begun, one) = (std::time::Instant::now(), cases);
        while result.is_ok() && begun.elapsed().as_secs() < seconds.into() {
            result = TestRunner::new(config.clone()).run(&kubeconfig(), check);
            cases += one;
        }
    }
    if let Err(error) = result {
        panic!("{error}");
    }
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(accepted * 4 > cases && refused * 4 > cases, "{accepted} accepted, {refused} refused");
}

/// The differences that `docs/reference/compatibility.md` lists.
fn is_known_difference(_text: &str, question: &Question) -> bool {
    // A cluster without a server: kubectl uses http://localhost:8080.
    let error = super::plugin(question).error;
    error.contains("has no server")
}
