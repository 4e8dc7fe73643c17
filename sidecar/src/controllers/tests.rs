use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::fake_host::host;

fn enabled(words: &str) -> Result<Enabled, UnknownController> {
    Enabled::parse(&words.split(',').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn nothing_is_none_and_a_star_is_all() {
    assert_eq!(enabled("").unwrap().0, [""; 0]);
    let all: Vec<_> = ALL.iter().map(|controller| controller.name).collect();
    assert_eq!(enabled("*").unwrap().0, all);
}

#[test]
fn a_word_that_names_no_controller_is_told() {
    for word in ["healht", "-healht"] {
        assert!(
            enabled(word).unwrap_err().to_string().starts_with(&format!("there is no controller {word:?}"))
        );
    }
}

#[test]
fn one_may_be_chosen_or_left_out() {
    assert_eq!(enabled("health").unwrap().0, ["health"]);
    assert!(!enabled("*,-health").unwrap().0.contains(&"health"));
    assert!(enabled("*,-health").unwrap().0.contains(&"credentials"));
    assert_eq!(enabled("health,-health").unwrap().0, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_is_begun_again_after_a_growing_while() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    static PANICS: Controller = Controller {
        name: "panics",
        run: |_| {
            Box::pin(async {
                RUNS.fetch_add(1, Ordering::SeqCst);
                panic!("as it was told to");
            })
        },
    };
    let (host, _) = host(|_| (200, serde_json::Value::Null));
    let (_told, fleet) = watch::channel(Arc::default());
    let (conditions, _writer) = Conditions::new(host.clone(), "ns", fleet.clone());
    let context = Context {
        admin_groups: Arc::default(),
        host,
        namespace: Arc::from("ns"),
        fleet,
        conditions,
        verdicts: Arc::default(),
        settings: Settings {
            member_monitor_period: Duration::from_secs(10),
            member_resync_period: Duration::from_secs(180),
            token_renewal_fraction: credentials::DEFAULT_RENEWAL_FRACTION,
        },
        metrics: Arc::default(),
        leadership: CancellationToken::new(),
    };
    let metrics = context.metrics.clone();
    assert!(timeout(Duration::from_secs(600), again_and_again(&PANICS, context)).await.is_err());
    let runs = RUNS.load(Ordering::SeqCst);
    assert!((8..20).contains(&runs), "{runs}");
    let line = format!("mc_sidecar_controller_restarts_total{{controller=\"panics\"}} {runs}");
    assert!(metrics.text().contains(&line), "{}", metrics.text());
}
