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
