//! Tests `kubectl mc env`, which prints the environment with which other tools use a cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::bed::{Bed, Ran};

const LIST: &str =
    r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m2"}}]}"#;

fn bed() -> Bed {
    Bed::answering((200, "application/json", LIST.to_owned()))
}

/// The path of the overlay, and the rest of KUBECONFIG.
fn parts(ran: &Ran) -> (String, String) {
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let value = ran.out.strip_prefix("export KUBECONFIG='").unwrap().strip_suffix("'\n").unwrap();
    let (overlay, rest) = value.split_once(':').unwrap();
    (overlay.to_owned(), rest.to_owned())
}

#[test]
fn overlay_is_private_and_holds_no_secret() {
    let bed = bed();
    let ran = bed.run(&["env", "-C", "m1"]);
    let (overlay, rest) = parts(&ran);
    assert_eq!(rest, bed.path("kubeconfig").to_str().unwrap());
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = overlay.rsplit_once('/').unwrap().0;
    assert_eq!((mode(&overlay), mode(folder)), (0o600, 0o700));
    assert!(folder.ends_with("home/.local/state/kubectl-mc"), "{folder}");
    let text = fs::read_to_string(&overlay).unwrap();
    assert!(text.contains("current-context: mc/m1\n") && text.contains("/clusters/m1/proxy\n"), "{text}");
    assert!(text.contains("    namespace: ns\n") && text.contains("    user: u\n"), "{text}");
    assert!(!text.contains("secret") && text.ends_with("users: []\n"), "{text}");
    assert_eq!(bed.run(&["env", "m1"]), ran, "the same file for the same choice");
    // Several clusters: the first is the current context.
    let (overlay, _) = parts(&bed.run(&["env", "m2", "m1"]));
    let text = fs::read_to_string(overlay).unwrap();
    assert!(text.contains("current-context: mc/m2\n") && text.contains("/clusters/m1/proxy\n"), "{text}");
}

#[test]
fn cluster_in_use_is_the_default() {
    let bed = bed();
    let ran = bed.run(&["env"]);
    let said = "error: no cluster chosen\nhint: choose by an argument, by -C NAME, KUBECTL_MC_CLUSTER or `kubectl mc use NAME`; there are m1, m2\n";
    assert_eq!(ran.failed(), (2, said));
    bed.run(&["use", "m2"]);
    let (overlay, _) = parts(&bed.run(&["env"]));
    assert!(fs::read_to_string(overlay).unwrap().contains("/clusters/m2/proxy"));
}

#[test]
fn syntax_follows_the_shell() {
    let bed = bed();
    let first = |ran: Ran| ran.out.split('/').next().unwrap().to_owned();
    for (shell, expected) in [
        ("/bin/bash", "export KUBECONFIG='"),
        ("/usr/bin/zsh", "export KUBECONFIG='"),
        ("/usr/bin/fish", "set -gx KUBECONFIG '"),
        ("/usr/bin/pwsh", "$Env:KUBECONFIG = '"),
    ] {
        assert_eq!(first(bed.run_with("SHELL", shell, &["env", "m1"])), expected, "{shell}");
    }
    assert_eq!(first(bed.run(&["env", "m1", "--shell=powershell"])), "$Env:KUBECONFIG = '");
    let ran = bed.run_with("SHELL", "/bin/tcsh", &["env", "m1"]);
    let said =
        "error: unknown shell /bin/tcsh\nhint: name a syntax: --shell=sh, bash, zsh, fish or powershell\n";
    assert_eq!(ran.failed(), (2, said));
}

#[test]
fn eval_and_unset_change_the_shell_and_restore_it() {
    let bed = bed();
    let plugin = env!("CARGO_BIN_EXE_kubectl-mc");
    let script = format!(
        "eval \"$({plugin} env m1)\"; kubectl get pods || :; eval \"$({plugin} env m2)\"; echo \"2: $KUBECONFIG\"; \
         {plugin} clusters -o name; eval \"$({plugin} env --unset)\"; echo \"3: ${{KUBECONFIG-unset}}\""
    );
    let run = |kubeconfig: Option<&str>| {
        let template = bed.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env_clear().current_dir(bed.path(""));
        shell.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
        match kubeconfig {
            Some(kubeconfig) => shell.env("KUBECONFIG", kubeconfig),
            None => shell.env_remove("KUBECONFIG"),
        };
        Ran::from(shell.output().unwrap())
    };
    // The path is relative, as a user may have it, but the folder of a shell changes.
    let ran = run(Some("kubeconfig"));
    let own = bed.path("kubeconfig").display().to_string();
    let (overlay, rest) = ran.kubeconfig();
    assert!(overlay.contains("/kubectl-mc/contexts-") && rest == own, "{ran:?}");
    let second = ran.out.lines().find_map(|line| line.strip_prefix("2: ")).unwrap();
    assert!(second != ran.kubeconfig().0 && second.split(':').count() == 2, "one overlay at a time: {ran:?}");
    assert!(
        ran.out.contains("\ncluster.proxy.kubectl-mc.dev/m1\n"),
        "the plugin still finds its host: {ran:?}"
    );
    assert!(ran.out.ends_with(&format!("3: {own}\n")), "{ran:?}");

    fs::create_dir_all(bed.path("home/.kube")).unwrap();
    fs::copy(bed.path("kubeconfig"), bed.path("home/.kube/config")).unwrap();
    let ran = run(None);
    assert!(ran.out.ends_with("3: unset\n"), "{ran:?}");
    assert_eq!(bed.run(&["env", "--unset"]), Ran::new(0, "", ""), "nothing to undo");
}

#[test]
fn fault_81_fish_reads_the_value_unchanged() {
    let bed = bed();
    let folder = bed.path("it's $HOME (id) \\n");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("kubeconfig");
    fs::copy(bed.path("kubeconfig"), &file).unwrap();
    let ran = bed.run_with("KUBECONFIG", &file, &["env", "m1", "--shell=fish"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", &format!("{}echo $KUBECONFIG", ran.out)])
        .env_clear()
        .env("HOME", bed.path("home"));
    let shown = Ran::from(fish.output().unwrap());
    let own = shown.out.trim_end().split_once(':').unwrap().1;
    assert_eq!(own, file.to_str().unwrap(), "{shown:?}");
}
