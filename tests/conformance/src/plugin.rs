//! The plugin in place of kubectl: a script that drops the server and the kubeconfig that
//! upstream's tests pass, and runs the plugin on one member with the host's kubeconfig.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::bed::kubectl;
use harness::caller::Caller;

use crate::suite::Suite;

/// An administrator of the host and their script.
pub(crate) struct InPlaceOfKubectl {
    script: PathBuf,
    /// Its kubeconfig lasts as long as the caller.
    _admin: Caller,
}

impl InPlaceOfKubectl {
    pub(crate) fn new(cluster: &str) -> Result<Self> {
        let admin = Caller::certificate("conformance-plugin", &["system:masters"])?;
        let programs = std::env::current_exe()?;
        let plugin = programs.with_file_name("kubectl-mc");
        ensure!(plugin.exists(), "not built: {}", plugin.display());
        let folder = Suite::folder()?;
        let script = folder.join("kubectl");
        let text = TEXT
            .replace("@KUBECONFIG@", &quoted(&admin.kubeconfig())?)
            .replace("@KUBECTL@", &quoted(Path::new(&kubectl()?))?)
            .replace("@HOME@", &quoted(&folder.join("home"))?)
            .replace("@PLUGIN@", &quoted(&plugin)?)
            .replace("@CLUSTER@", cluster);
        harness::script::write(&script, &text)?;
        Ok(Self { script, _admin: admin })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.script.clone()
    }
}

fn quoted(path: &Path) -> Result<String> {
    let path = path.to_str().context("a path is not UTF-8")?;
    Ok(format!("'{}'", path.replace('\'', r"'\''")))
}

/// The words after `--` belong to the command in the pod.
const TEXT: &str = r#"#!/bin/bash
words=()
dashes=
for word in "$@"; do
    [ "$word" = -- ] && dashes=yes
    case "$dashes$word" in --server=* | --kubeconfig=*) ;; *) words+=("$word") ;; esac
done
export KUBECONFIG=@KUBECONFIG@ KUBECTL_MC_KUBECTL=@KUBECTL@ HOME=@HOME@
exec @PLUGIN@ --cluster=@CLUSTER@ "${words[@]}"
"#;
