//! Tests that batches wait until their changes have rolled out, and that no batch follows one that
//! fails. Here kubectl is a script; `tests/e2e/plugin/slow/rollouts.rs` uses the real one.

use std::fs;

use crate::bed::Bed;

/// A kubectl for which a Deployment rolls out except on m2. `$cluster` is the member.
const KUBECTL: &str = r#"
echo "$*" >> "words.$cluster"
case "$*" in
get*) echo '{"kind": "List", "items": [
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": {}},
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}}]}';;
rollout*status*)
    [ $cluster != m2 ] || { echo 'error: deployment "web" exceeded its progress deadline' >&2; exit 1; }
    echo 'deployment "web" successfully rolled out';;
*) echo 'deployment.apps/web changed';;
esac"#;

fn words(bed: &Bed, cluster: &str) -> Vec<String> {
    let text = fs::read_to_string(bed.path(&format!("words.{cluster}"))).unwrap_or_default();
    // The overlay's context differs from run to run.
    let shown = |line: &str| {
        line.split(' ').filter(|word| !word.starts_with("--context")).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(shown).collect()
}

#[test]
fn batch_that_does_not_roll_out_is_the_last() {
    let bed = Bed::with_kubectl(KUBECTL);
    let ran = bed.run(&[
        "--yes",
        "--batch=1",
        "--batch-timeout=90s",
        "-C",
        "m1,m2,m3",
        "set",
        "image",
        "deploy/web",
        "web=x:2",
        "-n",
        "shop",
    ]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!(
        ran.out,
        "m1 | deployment.apps/web changed\nm1 | deployment \"web\" successfully rolled out\nm2 | deployment.apps/web changed\n"
    );
    for line in [
        "m2 | error: deployment \"web\" exceeded its progress deadline\n",
        "1 of 3 clusters failed: 1 deployment \"web\" exceeded its progress deadline (m2); 1 not begun (m3)\n",
        "undo with: kubectl mc --context=host --cluster=m2 rollout undo deployment/web --namespace=shop\n",
        "continue with: kubectl mc --retry-failed --yes --batch=1 --batch-timeout=90s set image deploy/web web=x:2 -n shop\n",
    ] {
        assert!(ran.err.contains(line), "{line} is not in {}", ran.err);
    }
    let of_m1 = words(&bed, "m1");
    assert_eq!(of_m1[1], "get deploy/web --namespace=shop --output=json");
    let status = "rollout status deployment/web --namespace=shop --timeout=";
    assert!(of_m1[2].starts_with(status), "{of_m1:?}");
    let seconds: u64 = of_m1[2][status.len()..].trim_end_matches('s').parse().unwrap();
    assert!((1..=90).contains(&seconds), "{of_m1:?}");
    assert_eq!(words(&bed, "m3"), [""; 0]);
}

#[test]
fn check_must_succeed_before_the_next_batch() {
    let bed = Bed::with_kubectl(
        r#"case "$*" in *wait*) [ $cluster != m1 ] || { echo 'error: not ready' >&2; exit 1; };; esac"#,
    );
    let check = "--batch-check=kubectl wait --for='condition=Ready' pod/x";
    let ran = bed.run(&["--yes", "--batch=1", check, "-C", "m1,m2", "label", "pod", "x", "a=b"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.err.contains("1 of 2 clusters failed: 1 not ready (m1); 1 not begun (m2)\n"), "{ran:?}");
    for command in ["", "true", "kubectl", "kubectl 'get"] {
        let check = format!("--batch-check={command}");
        let ran = bed.run(&["--yes", "--batch=1", &check, "-C", "m1,m2", "label", "pod", "x", "a=b"]);
        assert!(ran.code == Some(2) && ran.err.contains("--batch-check: "), "{command:?}: {ran:?}");
    }
}

#[test]
fn unreadable_list_of_the_changed_objects_is_a_failure() {
    let bed = Bed::with_kubectl(r#"case "$*" in get*) echo nothing;; esac"#);
    let ran = bed.run(&["--yes", "--batch=1", "-C", "m1,m2", "apply", "-f", "x"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.err.contains("kubectl's answer is no JSON"), "{ran:?}");
}

#[test]
fn nothing_is_waited_for_without_a_change_of_workloads() {
    for words in [
        &["--batch=1", "label", "pod", "x", "a=b"][..],
        &["--batch=1", "--no-batch-wait", "apply", "-f", "x"],
        &["--batch=1", "apply", "-f", "x", "--dry-run=server"],
        &["apply", "-f", "x"],
    ] {
        let bed = Bed::with_kubectl(KUBECTL);
        let ran = bed.run(&[&["--yes", "-C", "m1,m2"], words].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let all = words_of_both(&bed);
        assert!(all.iter().all(|line| !line.starts_with("get") && !line.starts_with("rollout")), "{all:?}");
    }
    let bed = Bed::with_kubectl(KUBECTL);
    bed.run(&["--yes", "--batch=1", "--batch-wait", "-C", "m1,m2", "annotate", "deploy", "web", "a=b"]);
    assert!(
        words(&bed, "m1").iter().any(|line| line.starts_with("rollout status")),
        "{:?}",
        words(&bed, "m1")
    );
}

fn words_of_both(bed: &Bed) -> Vec<String> {
    [words(bed, "m1"), words(bed, "m2")].concat()
}

#[test]
fn batches_are_shown_before_the_change() {
    let bed = Bed::with_kubectl("true");
    let ran = bed.run(&["--dry-run=clusters", "--batch=1,rest", "-C", "m1,m2,m3", "apply", "-f", "x"]);
    let rows: Vec<_> =
        ran.out.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows, ["BATCH CLUSTER", "1 m1", "2 m2", "2 m3"]);
}
