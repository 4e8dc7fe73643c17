//! Prompts once for confirmation before a change on several clusters. Above ten clusters, the user types
//! their number. Without a terminal nothing is changed.

use std::io::{self, BufRead, BufReader, IsTerminal, Write};

use super::job::Job;
use crate::argv::Scanned;
use crate::cluster::cluster_id::ClusterId;
use crate::confirm::is_yes;
use crate::error::Failure;
use crate::next_command::shown;

/// Prompts for the job, unless `--yes` is set.
pub(super) fn confirm(job: &Job<'_>) -> Result<(), Failure> {
    if job.options.yes {
        return Ok(());
    }
    let names: Vec<_> = job.targets.names().map(ToString::to_string).collect();
    confirm_change(job.scanned, &names, &format!(" of {}", job.reach.describe()), &batches(job))
}

/// Prompts for a change on one cluster of this host.
pub(crate) fn confirm_one(scanned: &Scanned, cluster: &ClusterId, host: Option<&str>) -> Result<(), Failure> {
    let place = host.map(|host| format!(" of {host}")).unwrap_or_default();
    confirm_change(scanned, &[cluster.to_string()], &place, "")
}

fn confirm_change(scanned: &Scanned, names: &[String], place: &str, batches: &str) -> Result<(), Failure> {
    let clusters = names.len();
    // After the verb of another plugin, the flag would belong to that plugin.
    let plugin = scanned.verb().filter(|_| !scanned.verb_is_builtin());
    let plugin = plugin.map(|verb| verb.to_string_lossy().into_owned());
    let refused = || {
        let what = count(clusters);
        let place = plugin.as_ref().map(|plugin| format!(" before {plugin}")).unwrap_or_default();
        Failure::usage(format!(
            "refusing to change {what} without confirmation: there is no terminal to ask at"
        ))
        .with_hint(format!("--yes{place} changes them; --dry-run=clusters shows what would be done"))
    };
    if !io::stderr().is_terminal() {
        return Err(refused());
    }
    let mut input = terminal().map_err(|_| refused())?;
    let command = shown(scanned.kubectl.iter().map(|word| word.as_os_str()));
    let begin = format!(
        "This changes {}{place}:
  {}
by:
  kubectl {command}
{batches}",
        count(clusters),
        names.join(", ")
    );
    let confirmed = ask(&begin, clusters, &mut input, &mut io::stderr()).map_err(|_| refused())?;
    if confirmed { Ok(()) } else { Err(Failure::new("nothing was changed")) }
}

/// The line about the batches, if there are any.
fn batches(job: &Job<'_>) -> String {
    let Some(batches) = &job.options.batches else { return String::new() };
    let sizes: Vec<_> = batches.sizes(job.targets.len()).iter().map(ToString::to_string).collect();
    let steps = job.options.rollout.described(job.scanned);
    let steps = steps.map(|steps| format!("; {steps}")).unwrap_or_default();
    format!("in batches of {}{steps}\n", sizes.join(", "))
}

fn ask(begin: &str, clusters: usize, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<bool> {
    output.write_all(begin.as_bytes())?;
    let many = clusters > TYPED_ABOVE;
    if many {
        write!(output, "Type the number of clusters to go on: ")?;
    } else {
        write!(output, "Do you want to continue? (y/N): ")?;
    }
    output.flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    let answer = line.trim();
    Ok(if many { answer.parse() == Ok(clusters) } else { is_yes(answer) })
}

/// The terminal itself, because standard input may be the data of the command.
#[cfg(unix)]
fn terminal() -> io::Result<BufReader<std::fs::File>> {
    std::fs::File::open("/dev/tty").map(BufReader::new)
}

#[cfg(not(unix))]
fn terminal() -> io::Result<BufReader<io::Stdin>> {
    if io::stdin().is_terminal() {
        Ok(BufReader::new(io::stdin()))
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn count(clusters: usize) -> String {
    if clusters == 1 { "1 cluster".to_owned() } else { format!("{clusters} clusters") }
}

/// Above this number of clusters, the user types the number.
const TYPED_ABOVE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_yes_confirms() {
        let asked = |clusters, typed: &str| {
            let mut shown = Vec::new();
            let answer = ask("", clusters, &mut typed.as_bytes(), &mut shown).unwrap();
            (answer, String::from_utf8(shown).unwrap())
        };
        for (clusters, typed, expected) in [
            (2, "y\n", true),
            (2, "yes\n", true),
            (2, "YES\n", true),
            (2, "\n", false),
            (2, "", false),
            (2, "n\n", false),
            (10, "y\n", true),
            (11, "y\n", false),
            (11, "11\n", true),
            (11, "12\n", false),
        ] {
            assert_eq!(asked(clusters, typed).0, expected, "{clusters} {typed:?}");
        }
        assert_eq!(asked(2, "").1, "Do you want to continue? (y/N): ");
        assert_eq!(asked(11, "").1, "Type the number of clusters to go on: ");
    }
}
