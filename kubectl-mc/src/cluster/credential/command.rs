//! Creates the command of a credential plugin. No other code starts a credential plugin of a
//! kubeconfig: the kube crate gets only the credential, never the plugin.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Parser;
use kube::config::{Cluster, ExecConfig, ExecInteractiveMode};
use serde_json::json;

use super::cluster_info::cluster_info;
use crate::cli::CredentialArgs;
use crate::env::KUBERNETES_EXEC_INFO;

/// The command of a plugin whose program was found and permitted.
pub(super) fn command(program: &Path, exec: &ExecConfig, cluster: &Cluster) -> Result<Command, String> {
    let name = exec.command.as_deref().unwrap_or_default();
    let terminal = std::io::stdin().is_terminal();
    let mode = exec.interactive_mode.as_ref();
    if mode == Some(&ExecInteractiveMode::Always) && !terminal {
        return Err(format!("the credential plugin {name} needs a terminal"));
    }
    // Otherwise standard input is the data of the command, which the plugin must not consume.
    let interactive = terminal && mode != Some(&ExecInteractiveMode::Never);
    let version = exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
    let mut spec = json!({"interactive": interactive});
    if exec.provide_cluster_info {
        spec["cluster"] = cluster_info(cluster);
    }
    let info = json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(program);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(exec.args.iter().flatten());
    // The variables in a kubeconfig can determine where a login of this program is read and sent
    // (the state folder, the issuer's authority, a proxy). The kubeconfig may come from another
    // person, and a login does not need the variables.
    if !is_own(program, exec) {
        for variable in exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
    }
    // This comes last, as in client-go: otherwise a kubeconfig could name a server other than the
    // one that gets the credential.
    command.env(KUBERNETES_EXEC_INFO, info.to_string());
    command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() }).stderr(Stdio::inherit());
    command.stdout(Stdio::piped());
    Ok(command)
}

/// Whether the plugin is `kubectl-mc credential`: by its file, its name, or its arguments, because
/// a link or another program can lead to it.
fn is_own(program: &Path, exec: &ExecConfig) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let is_this =
        std::env::current_exe().ok().and_then(|own| real(&own)).is_some_and(|own| real(program) == Some(own));
    let stem = program.file_stem().and_then(OsStr::to_str).unwrap_or_default().replace('_', "-");
    is_this || stem.starts_with("kubectl-mc") || has_own_arguments(exec.args.as_deref().unwrap_or_default())
}

fn has_own_arguments(arguments: &[String]) -> bool {
    let starts = (0..arguments.len()).filter(|&at| arguments[at] == CREDENTIAL);
    starts.into_iter().any(|at| CredentialArgs::try_parse_from(&arguments[at..]).is_ok())
}

/// The first argument of this program as a credential plugin.
pub(crate) const CREDENTIAL: &str = "credential";

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn exec(args: &[&str], variables: &[(&str, &str)]) -> ExecConfig {
        let variable = |(name, value): &(&str, &str)| {
            HashMap::from([
                ("name".to_owned(), (*name).to_owned()),
                ("value".to_owned(), (*value).to_owned()),
            ])
        };
        ExecConfig {
            command: Some("login".to_owned()),
            args: Some(args.iter().map(|&arg| arg.to_owned()).collect()),
            env: Some(variables.iter().map(variable).collect()),
            ..serde_json::from_str("{}").unwrap()
        }
    }

    fn variables(program: &str, exec: &ExecConfig) -> Vec<(String, String)> {
        let command = command(Path::new(program), exec, &Cluster::default()).unwrap();
        let text = |text: &OsStr| text.to_str().unwrap().to_owned();
        command.get_envs().map(|(name, value)| (text(name), text(value.unwrap()))).collect()
    }

    #[test]
    fn fault_81_request_follows_the_variables_of_the_kubeconfig() {
        let exec = exec(&[], &[(KUBERNETES_EXEC_INFO, "of the kubeconfig"), ("AWS_PROFILE", "dev")]);
        let variables = variables("/bin/aws", &exec);
        assert_eq!(variables.len(), 2, "{variables:?}");
        assert_eq!(variables[0], ("AWS_PROFILE".to_owned(), "dev".to_owned()));
        assert!(variables[1].1.starts_with('{'), "{variables:?}");
    }

    #[test]
    fn fault_81_own_plugin_gets_no_kubeconfig_variable() {
        let own = ["credential", "--login=hub", "--server=https://h"];
        let hostile = [("XDG_STATE_HOME", "/x"), ("SSL_CERT_FILE", "/x"), ("https_proxy", "http://x")];
        for (program, before) in [
            ("/bin/kubectl-mc", &[][..]),
            ("/opt/kubectl_mc-v1", &[]),
            ("/bin/kubectl-mc.exe", &["-v=6"]),
            ("/bin/kubectl", &["mc"]),
            ("/bin/x", &[]),
            ("/usr/bin/env", &["-S", "kubectl-mc"]),
        ] {
            let exec = exec(&[before, &own].concat(), &hostile);
            let variables = variables(program, &exec);
            assert!(
                matches!(&variables[..], [(name, _)] if name == KUBERNETES_EXEC_INFO),
                "{program}: {variables:?}"
            );
        }
        let this = std::env::current_exe().unwrap();
        assert_eq!(variables(this.to_str().unwrap(), &exec(&["version"], &hostile)).len(), 1);
        assert_eq!(variables("/bin/aws", &exec(&["credential"], &hostile)).len(), 4);
    }
}
