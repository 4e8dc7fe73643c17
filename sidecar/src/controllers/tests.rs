use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::host::fake::host;
use crate::outbound::tunnel::registry::AgentTunnels;

fn enabled(words: &str) -> Result<Enabled, UnknownController> {
    Enabled::parse(&words.split(',').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn empty_list_enables_none_and_star_enables_all() {
    assert_eq!(enabled("").unwrap().0, [""; 0]);
    let all: Vec<_> = ALL.iter().map(|controller| controller.name).collect();
    assert_eq!(enabled("*").unwrap().0, all);
}

#[test]
fn unknown_controller_is_named_in_the_error() {
    for word in ["healht", "-healht"] {
        assert!(enabled(word).unwrap_err().to_string().starts_with(&format!("unknown controller {word:?}")));
    }
}

#[test]
fn controller_can_be_enabled_or_disabled() {
    assert_eq!(enabled("health").unwrap().0, ["health"]);
    assert!(!enabled("*,-health").unwrap().0.contains(&"health"));
    assert!(enabled("*,-health").unwrap().0.contains(&"credentials"));
    assert_eq!(enabled("health,-health").unwrap().0, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn panicking_controller_restarts_with_backoff() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static PANICS: Controller = Controller {
        name: "panics",
        aspect: Some(Aspect::Reachable),
        run: |_| {
            Box::pin(async {
                RUNS.fetch_add(1, Ordering::SeqCst);
                panic!("as it was told to");
            })
        },
    };
    let (_told, mut context) = context();
    let mut registry = crate::observe::metrics::registry();
    context.metrics = Arc::new(Metrics::register(&mut registry));
    assert!(timeout(Duration::from_secs(600), run_with_restarts(&PANICS, context)).await.is_err());
    let runs = RUNS.load(Ordering::SeqCst);
    assert!((8..20).contains(&runs), "{runs}");
    let line = format!("mc_sidecar_controller_restarts_total{{controller=\"panics\"}} {runs}");
    let text = crate::observe::metrics::text(&registry);
    assert!(text.contains(&line), "{text}");
}

/// A context with a host that responds with nothing useful, and the sender of the fleet.
pub(super) fn context() -> (watch::Sender<Arc<Fleet>>, Context) {
    let (host, _) = host(|_| (200, serde_json::Value::Null));
    let (told, fleet) = watch::channel(Arc::default());
    let awaited = Awaited { aspects: Arc::default(), patience: Duration::ZERO };
    let (conditions, _writer) = Conditions::new(host.clone(), "ns", fleet.clone(), awaited);
    let context = Context {
        admin_groups: Arc::default(),
        host,
        namespace: Arc::from("ns"),
        fleet,
        hub_clusters: watch::channel(None).1,
        conditions,
        verdicts: Arc::default(),
        enrollments: Arc::default(),
        settings: Settings {
            member_monitor_period: Duration::from_secs(10),
            member_resync_period: Duration::from_secs(180),
            token_renewal_fraction: kubectl_mc_api::token_life::RENEWAL_FRACTION,
            publishes_direct_endpoint: false,
            cluster_profile_server: None,
            hub_with_rights: None,
            agent_rbac: None,
        },
        metrics: Arc::default(),
        tunnels: AgentTunnels::none(),
        leadership: CancellationToken::new(),
    };
    (told, context)
}
