//! Runs a command that prints a credential: a token, or an `ExecCredential` as from a credential plugin. The
//! command inherits `KUBERNETES_EXEC_INFO`, and the terminal if the plugin has it.

use std::io::{self, IsTerminal};
use std::process::{Command, ExitStatus, Stdio};

use super::record::Credential;
use crate::child_output::{LIMIT, output_within};

/// Runs the command with these additional variables, and parses its output.
pub(super) fn run(command: &[String], variables: &[(String, String)]) -> Result<Credential, CommandError> {
    let Some((program, arguments)) = command.split_first() else { return Err(CommandError::None) };
    let mut child = Command::new(program);
    child.args(arguments).envs(variables.iter().cloned()).stderr(Stdio::inherit()).stdin(Stdio::inherit());
    let program = program.clone();
    let limit = (!io::stdin().is_terminal()).then_some(LIMIT);
    let output = match output_within(&mut child, limit) {
        Ok(output) => output,
        Err(source) => return Err(CommandError::NotRun { program, source }),
    };
    if !output.status.success() {
        return Err(CommandError::Failed { program, status: output.status });
    }
    // The error omits the output, which may be a credential.
    Credential::of_output(&output.stdout).ok_or(CommandError::NoCredential { program })
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("no command is named")]
    None,
    #[error("cannot run {program}")]
    NotRun { program: String, source: std::io::Error },
    #[error("{program} failed: {status}")]
    Failed { program: String, status: ExitStatus },
    #[error("{program} printed neither a token nor an ExecCredential")]
    NoCredential { program: String },
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str) -> Result<Credential, CommandError> {
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
        assert!(matches!(missing, CommandError::NotRun { .. }), "{missing}");
    }
}
