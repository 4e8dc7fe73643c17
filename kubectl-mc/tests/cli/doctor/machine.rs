//! Each fault of this machine, with its fix.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// The first finding of a run with this `PATH` of folders in the bed, where `BED` is its folder.
fn found(bed: &Bed, path: &[&str], variables: &[(&str, &str)]) -> String {
    let folder = bed.path("home").parent().unwrap().display().to_string();
    let mut command = bed.command(&["doctor", "m1"]);
    command.env("PATH", std::env::join_paths(path.iter().map(|folder| bed.path(folder))).unwrap());
    for (name, value) in variables {
        command.env(name, value.replace("BED", &folder));
    }
    let ran: Ran = command.output().unwrap().into();
    let text = first(&ran).replace(&folder, "BED").replace(env!("CARGO_BIN_EXE_kubectl-mc"), "HERE");
    text.replace(concat!("v", env!("CARGO_PKG_VERSION")), "VERSION")
}

/// krew's installation of plugin `mc` from this index, below `root`.
fn krew(bed: &Bed, root: &str, index: &str, homepage: &str) {
    let program = bed.script(&format!("{root}/store/mc/v9.1.0/kubectl-mc"), "#!/bin/sh\n");
    for folder in ["bin", "receipts"] {
        std::fs::create_dir_all(bed.path(root).join(folder)).unwrap();
    }
    symlink(program, bed.path(root).join("bin/kubectl-mc")).unwrap();
    let status =
        if index.is_empty() { String::new() } else { format!("status:\n  source:\n    name: {index}\n") };
    let receipt = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Receipt\nmetadata:\n  name: mc\n\
         spec:\n  homepage: {homepage}\n  version: v9.1.0\n{status}"
    );
    std::fs::write(bed.path(root).join("receipts/mc.yaml"), receipt).unwrap();
}

/// The problem that `kubectl mc` runs this program, with these commands as its fix.
fn problem(program: &str, commands: &[&str]) -> String {
    format!("problem plugin `kubectl mc` runs {program}, not HERE\nfix: {}", commands.join(" && "))
}

const UNINSTALL: &str = "kubectl krew uninstall mc";
const ADD_INDEX: &str = "kubectl krew index add kubectl-mc https://github.com/kubectl-mc/krew-index";
const INSTALL: &str = "kubectl krew install kubectl-mc/mc";
/// The homepage of the plugin `mc` in krew's own index.
const OTHER: &str = "https://github.com/jonnylangefeld/kubectl-mc";

#[test]
fn krew_plugin_of_another_index_is_replaced_by_its_commands() {
    // krew treats a receipt without an index as one from its own index.
    for (index, named) in [("default", "default"), ("", "default"), ("acme", "acme")] {
        let bed = bed(|_| None);
        krew(&bed, "home/.krew", index, OTHER);
        let other = format!("BED/home/.krew/bin/kubectl-mc (plugin mc v9.1.0 of krew's index {named:?})");
        let first = ["home/.krew/bin", "bin"];
        assert_eq!(found(&bed, &first, &[]), problem(&other, &[UNINSTALL, ADD_INDEX, INSTALL]));
        std::fs::create_dir_all(bed.path("home/.krew/index/kubectl-mc")).unwrap();
        assert_eq!(found(&bed, &first, &[]), problem(&other, &[UNINSTALL, INSTALL]));
        assert_eq!(
            found(&bed, &["bin", "home/.krew/bin"], &[]),
            format!(
                "warning plugin VERSION BED/bin/kubectl-mc; further in PATH: {other}\n\
                 fix: remove what is not used: {UNINSTALL}"
            )
        );
    }
}

#[test]
fn krew_root_of_the_environment_is_respected() {
    let bed = bed(|_| None);
    krew(&bed, "tools", "default", OTHER);
    let root = [("KREW_ROOT", "BED/tools")];
    for folder in ["tools/bin", "tools/store/mc/v9.1.0"] {
        let other = format!("BED/{folder}/kubectl-mc (plugin mc v9.1.0 of krew's index \"default\")");
        assert_eq!(found(&bed, &[folder, "bin"], &root), problem(&other, &[UNINSTALL, ADD_INDEX, INSTALL]));
    }
    let elsewhere = "remove BED/tools/bin/kubectl-mc, or put its folder after this one in PATH";
    assert_eq!(found(&bed, &["tools/bin", "bin"], &[]), problem("BED/tools/bin/kubectl-mc", &[elsewhere]));
    // krew cannot uninstall a plugin without a receipt.
    std::fs::remove_file(bed.path("tools/receipts/mc.yaml")).unwrap();
    assert_eq!(found(&bed, &["tools/bin", "bin"], &root), problem("BED/tools/bin/kubectl-mc", &[elsewhere]));
}

#[test]
fn other_version_of_this_plugin_is_only_uninstalled() {
    let bed = bed(|_| None);
    krew(&bed, "home/.krew", "kubectl-mc", env!("CARGO_PKG_REPOSITORY"));
    let other = "BED/home/.krew/bin/kubectl-mc (this plugin v9.1.0 of krew's index \"kubectl-mc\")";
    assert_eq!(found(&bed, &["home/.krew/bin", "bin"], &[]), problem(other, &[UNINSTALL]));
}

#[test]
fn each_other_program_in_path_has_its_fix() {
    let bed = bed(|_| None);
    bed.script("other/kubectl-mc", "#!/bin/sh\n");
    std::fs::create_dir(bed.path("kubectl")).unwrap();
    symlink(bed.path("bin/kubectl"), bed.path("kubectl/kubectl")).unwrap();
    assert_eq!(
        found(&bed, &["other", "bin"], &[]),
        "problem plugin `kubectl mc` runs BED/other/kubectl-mc, not HERE\n\
         fix: remove BED/other/kubectl-mc, or put its folder after this one in PATH"
    );
    assert_eq!(
        found(&bed, &["bin", "other"], &[]),
        "warning plugin VERSION BED/bin/kubectl-mc; further in PATH: BED/other/kubectl-mc\n\
         fix: remove what is not used: BED/other/kubectl-mc"
    );
    let missing = found(&bed, &["kubectl"], &[]);
    let folder = Path::new(env!("CARGO_BIN_EXE_kubectl-mc")).parent().unwrap().display().to_string();
    assert_eq!(
        missing.replace(&folder, "FOLDER"),
        "warning plugin HERE is not in PATH as kubectl-mc: `kubectl mc` does not find it\n\
         fix: put it into a folder of PATH as kubectl-mc; its own folder is FOLDER"
    );
    bed.script("longer/kubectl-mc-get_all", "#!/bin/sh\n");
    assert_eq!(
        found(&bed, &["bin", "longer"], &[]),
        "problem plugin `kubectl mc get-all` runs BED/longer/kubectl-mc-get_all\n\
         fix: rename or remove BED/longer/kubectl-mc-get_all"
    );
}

#[test]
fn each_fault_of_kubectl_has_its_fix() {
    let bed = bed(|_| None);
    let kubectl = |text: &str| bed.script("bin/kubectl", &format!("#!/bin/sh\n{text}\n"));
    kubectl("exit 1");
    assert_eq!(
        found(&bed, &["bin"], &[]),
        "problem kubectl BED/bin/kubectl does not print its version\n\
         fix: KUBECTL_MC_KUBECTL=/path/to/kubectl chooses another kubectl"
    );
    kubectl(r#"echo '{"clientVersion": {"gitVersion": "v1.29.1"}}'"#);
    assert_eq!(
        found(&bed, &["bin"], &[]),
        "warning kubectl v1.29.1 BED/bin/kubectl: exec and cp use SPDY only, which many proxies and load balancers refuse\n\
         fix: install kubectl 1.30 or later, or set KUBECTL_MC_KUBECTL=/path/to/kubectl"
    );
    assert_eq!(
        found(&bed, &["bin"], &[("KUBECTL_MC_KUBECTL", "BED/no")]),
        "problem kubectl KUBECTL_MC_KUBECTL names no executable: BED/no\n\
         fix: install kubectl, or set its path: KUBECTL_MC_KUBECTL=/path/to/kubectl"
    );
    std::fs::remove_file(bed.path("bin/kubectl")).unwrap();
    assert_eq!(
        found(&bed, &["bin"], &[]),
        "problem kubectl no kubectl in PATH\n\
         fix: install kubectl, or set its path: KUBECTL_MC_KUBECTL=/path/to/kubectl"
    );
}

#[test]
fn each_unusable_file_of_the_user_has_its_fix() {
    let bed = bed(|_| None);
    let file = bed.path("home/.config/kubectl-mc/config.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (text, expected) in [
        (
            "setz: {}\n",
            "problem configuration cannot use BED/home/.config/kubectl-mc/config.yaml: unknown field `setz`, expected one of host, hub, sets, defaults at line 1, column 1\n\
         fix: did you mean `sets`?",
        ),
        (
            "sets: [1\n",
            "problem configuration cannot use BED/home/.config/kubectl-mc/config.yaml: expected mapping start at line 1, column 7\n\
         fix: correct BED/home/.config/kubectl-mc/config.yaml",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(found(&bed, &["bin"], &[]), expected);
    }
    std::fs::remove_file(&file).unwrap();
    let cache = bed.path("shared/kubectl-mc");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(
        found(&bed, &["bin"], &[("XDG_CACHE_HOME", "BED/shared")]),
        "warning cache refusing the cache folder BED/shared/kubectl-mc: other users have access to it: each command asks everything again\n\
         fix: chmod 700 BED/shared/kubectl-mc"
    );
}
