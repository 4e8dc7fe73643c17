//! Runs a command that prints a credential: a token, or an `ExecCredential` as from a credential plugin. The
//! command inherits `KUBERNETES_EXEC_INFO`, and the terminal if the plugin has it.

use std::io::{self, IsTerminal};
use std::process::{Command, Stdio};

use super::record::Credential;
use crate::child_output::{LIMIT, output_within};
use crate::error::{Context, Failure};

/// Runs the command with these additional variables, and parses its output.
pub(super) fn run(command: &[String], variables: &[(String, String)]) -> Result<Credential, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::new("no command is named"));
    };
    let mut child = Command::new(program);
    child.args(arguments).envs(variables.iter().cloned()).stderr(Stdio::inherit()).stdin(Stdio::inherit());
    let limit = (!io::stdin().is_terminal()).then_some(LIMIT);
    let output = output_within(&mut child, limit).context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        return Err(Failure::new(format!("{program} failed: {}", output.status)));
    }
    // The error omits the output, which may be a credential.
    Credential::of_output(&output.stdout)
        .ok_or_else(|| Failure::new(format!("{program} printed neither a token nor an ExecCredential")))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str) -> Result<Credential, Failure> {
        run(&["sh", "-c", script].map(str::to_owned), &[("WORD".to_owned(), "abc".to_owned())])
    }

    #[test]
    fn command_failures_show_nothing_that_was_printed() {
        assert!(sh("echo $WORD").unwrap().token.as_deref() == Some("abc"));
        for (script, expected) in [
            ("echo secret words", "sh printed neither a token nor an ExecCredential"),
            ("echo secret; exit 3", "sh failed: exit status: 3"),
        ] {
            assert_eq!(sh(script).err().unwrap().to_string(), expected);
        }
        let missing = run(&["/no/such/program".to_owned()], &[]).err().unwrap();
        assert!(missing.to_string().starts_with("cannot run /no/such/program: "), "{missing}");
    }
}
