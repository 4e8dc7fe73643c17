//! An attacker's kubeconfigs, each of one kind and of a bounded size. They point to the attacker's
//! [`Trap`], or cost time or memory to read.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::texts;
use super::trap::Trap;
use crate::fake_member::SERVER_NAME;

/// What the attacker knows of the victim.
pub struct Victim<'a> {
    pub trap: &'a Trap,
    /// The host of the victim's login, and its certificate authority (PEM).
    pub server: String,
    pub authority: Vec<u8>,
    /// The name of the login.
    pub login: &'a str,
    /// The victim's user and cluster, by the names in their own kubeconfig.
    pub user: String,
    pub cluster: &'a str,
    /// Names of the plugin, each with the words before `credential`.
    pub programs: Vec<Vec<String>>,
    /// A file with the victim's credential.
    pub secret: PathBuf,
}

/// One kubeconfig.
pub struct Kubeconfig {
    pub name: &'static str,
    pub text: Vec<u8>,
    /// Whether a command that uses its contexts sends a request to the trap, with a credential
    /// other than the victim's.
    pub reaches_trap: bool,
}

/// The credential that the attacker's own kubeconfigs have.
pub const OWN_TOKEN: &str = "token-of-the-attacker";

/// All kinds.
pub fn all(victim: &Victim<'_>) -> Vec<Kubeconfig> {
    let made = |name: &'static str, config: Value| Kubeconfig {
        name,
        text: escaped(&config.to_string()).into_bytes(),
        reaches_trap: false,
    };
    let trap = victim.of_trap();
    let proxied = |mut cluster: Value| {
        cluster["proxy-url"] = victim.trap.proxy().into();
        cluster
    };
    let mut under_its_name = proxied(victim.of_host(victim.trap.authority().as_bytes()));
    under_its_name["tls-server-name"] = SERVER_NAME.into();
    let mut all = vec![
        Kubeconfig { reaches_trap: true, ..made("own token", two(&trap, &json!({"token": OWN_TOKEN}))) },
        Kubeconfig { reaches_trap: true, ..made("hostile names", named(&trap)) },
        made("token file", two(&trap, &json!({"tokenFile": victim.secret}))),
        made(
            "command",
            two(&trap, &json!({"exec": exec(&["sh", "-c", "touch canary; echo {}"], &json!([]))})),
        ),
        made("proxy of the attacker with its authority", two(&under_its_name, &victim.login(0, &json!([])))),
        made("proxy of the attacker without verification", {
            let mut cluster = proxied(victim.of_host(b""));
            cluster["insecure-skip-tls-verify"] = true.into();
            two(&cluster, &victim.login(0, &json!([])))
        }),
        made("server without TLS", {
            let cluster = json!({"server": victim.trap.proxy()});
            two(&cluster, &victim.login(0, &json!([])))
        }),
        Kubeconfig {
            name: "huge file",
            text: format!("{}#{}\n", two(&trap, &json!({"token": OWN_TOKEN})), "x".repeat(HUGE)).into(),
            reaches_trap: false,
        },
        Kubeconfig { name: "deep nesting", text: nested().into(), reaches_trap: false },
        Kubeconfig { name: "aliases", text: aliases().into(), reaches_trap: false },
        Kubeconfig { name: "no text", text: (0..=255).cycle().take(4096).collect(), reaches_trap: false },
    ];
    // If there are several files, the first one that has a name counts, and all of them share their
    // names.
    let context = json!({"name": "one", "context": {"cluster": "c", "user": victim.user}});
    all.push(made("user of the victim", {
        let mut config = two(&trap, &json!({}));
        config["contexts"] = json!([context]);
        config
    }));
    all.push(made(
        "cluster of the victim",
        json!({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": victim.cluster, "cluster": trap}]}),
    ));
    all.extend(
        (0..victim.programs.len()).map(|program| {
            made("request for the host", two(&trap, &victim.login(program, &victim.request())))
        }),
    );
    all.push(made(
        "other trust, proxy and folders",
        two(&victim.of_host(&victim.authority), &victim.login(0, &victim.elsewhere())),
    ));
    all.push(made("other trust at the trap", two(&trap, &victim.login(0, &victim.elsewhere()))));
    all
}

impl Victim<'_> {
    fn of_trap(&self) -> Value {
        json!({"server": self.trap.url(), "certificate-authority-data": STANDARD.encode(self.trap.authority())})
    }

    /// The victim's host, with this certificate authority.
    fn of_host(&self, authority: &[u8]) -> Value {
        let mut cluster = json!({"server": self.server});
        if !authority.is_empty() {
            cluster["certificate-authority-data"] = STANDARD.encode(authority).into();
        }
        cluster
    }

    /// The user of the victim's login, with these variables, by one of its programs.
    fn login(&self, program: usize, variables: &Value) -> Value {
        let own =
            ["credential".to_owned(), format!("--login={}", self.login), format!("--server={}", self.server)];
        let words: Vec<_> = self.programs[program].iter().chain(&own).map(String::as_str).collect();
        json!({"exec": exec(&words, variables)})
    }

    /// The request that the real host would cause.
    pub fn info(&self) -> Value {
        json!({
            "apiVersion": VERSION, "kind": "ExecCredential",
            "spec": {"interactive": false, "cluster": self.of_host(&self.authority)},
        })
    }

    fn request(&self) -> Value {
        json!([variable("KUBERNETES_EXEC_INFO", &self.info().to_string())])
    }

    /// Variables that move trust, proxies, folders and settings to the attacker.
    fn elsewhere(&self) -> Value {
        let (proxy, nowhere) = (self.trap.proxy(), "/nonexistent");
        let proxies = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let folders =
            ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "KUBECONFIG", "KUBERC", "PATH"];
        let own = ["KUBECTL_MC_CLUSTER", "KUBECTL_MC_LOG", "KUBECTL_MC_ROUTE", "KUBECTL_MC_CONTEXT"];
        let trust = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
        let to =
            |names: &[&str], value: &str| names.iter().map(|name| variable(name, value)).collect::<Vec<_>>();
        [
            to(&proxies, &proxy),
            to(&["NO_PROXY", "no_proxy"], ""),
            to(&folders, nowhere),
            to(&own, "canary"),
            to(&trust, nowhere),
        ]
        .concat()
        .into()
    }
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn exec(words: &[&str], variables: &Value) -> Value {
    json!({
        "apiVersion": VERSION, "command": words[0], "args": words[1..], "env": variables,
        "interactiveMode": "IfAvailable", "provideClusterInfo": true,
    })
}

/// Two contexts of a cluster and a user, because the plugin handles several clusters differently
/// from one.
fn two(cluster: &Value, user: &Value) -> Value {
    let context = |name: &str| json!({"name": name, "context": {"cluster": "c", "user": "of-the-attacker"}});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [context("one"), context("two")],
        "users": [{"name": "of-the-attacker", "user": user}],
    })
}

/// The same with hostile names for everything that has a name.
fn named(cluster: &Value) -> Value {
    let names: Vec<_> = texts::commands().into_iter().filter(|name| !name.is_empty()).collect();
    let all = |kind: &str, value: &dyn Fn(&str) -> Value| {
        let entry = |name: &String| json!({"name": name, kind: value(name)});
        names.iter().map(entry).collect::<Vec<_>>()
    };
    let mut config = two(cluster, &json!({"token": OWN_TOKEN}));
    for (list, more) in [
        ("clusters", all("cluster", &|_| cluster.clone())),
        ("users", all("user", &|_| json!({"token": OWN_TOKEN}))),
        ("contexts", all("context", &|name| json!({"cluster": name, "user": name, "namespace": name}))),
    ] {
        if let Some(entries) = config[list].as_array_mut() {
            entries.extend(more);
        }
    }
    config
}

/// JSON without characters that YAML refuses: it contains them only as escapes.
fn escaped(json: &str) -> String {
    let escape = |c: char| match c {
        ' '..='~' | '\n' => c.to_string(),
        c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    json.chars().map(escape).collect()
}

fn nested() -> String {
    format!("apiVersion: v1\nkind: Config\nextensions: {}{}\n", "[".repeat(DEEP), "]".repeat(DEEP))
}

/// Each line has ten times the nodes of the line before.
fn aliases() -> String {
    let mut text = "apiVersion: v1\nkind: Config\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..=10 {
        let before = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
    }
    text
}

const VERSION: &str = "client.authentication.k8s.io/v1";
/// The size of the huge file in bytes.
const HUGE: usize = 16 * 1024 * 1024;
/// The number of levels of the nested file.
const DEEP: usize = 100_000;
