//! Records the flags of a command in an annotation of an object that it applies. The next run of
//! the command uses the record to find flags that it lacks, before it changes anything: without
//! them it would undo their effect.

use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use kubectl_mc_api::names;
use serde_json::{Value, json};

use super::Applied;
use crate::next_command::quoted;

/// Flags as words, each with its value: `--replicas=3`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedFlags(Vec<String>);

impl RecordedFlags {
    /// The given flags of a command, except for those that only choose how it runs.
    pub(crate) fn of(matches: &ArgMatches, command: &Command, left_out: &[&str]) -> Self {
        let mut words = Vec::new();
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            let Some(long) = argument.get_long().filter(|long| !left_out.contains(long)) else { continue };
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            if !argument.get_action().takes_values() {
                words.push(format!("--{long}"));
                continue;
            }
            let values = matches.get_raw(id).into_iter().flatten();
            words.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
        }
        Self(words)
    }

    /// Writes the record into the object of this kind.
    pub(crate) fn write(&self, objects: &mut [Value], kind: &str) {
        let object = objects.iter_mut().find(|object| object["kind"] == kind);
        if let Some(metadata) = object.map(|object| &mut object["metadata"]) {
            metadata["annotations"][names::FLAGS] = json!(self.0).to_string().into();
        }
    }

    /// The flags that are in the record on the host but not in this command. A flag that is given
    /// with another value is not missing.
    pub(crate) fn lacking(&self, applied: &[Applied]) -> Self {
        let record = applied
            .iter()
            .filter_map(|one| one.before.as_ref()?["metadata"]["annotations"][names::FLAGS].as_str());
        let recorded = record.filter_map(|text| serde_json::from_str::<Vec<String>>(text).ok()).flatten();
        let is_given = |word: &String| self.0.iter().any(|given| name(given) == name(word));
        Self(recorded.filter(|word| !is_given(word)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn and(&self, other: &Self) -> Self {
        Self([&self.0[..], &other.0].concat())
    }
}

/// As typed in a shell.
impl std::fmt::Display for RecordedFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> = self.0.iter().map(|word| quoted(OsStr::new(word))).collect();
        f.write_str(&words.join(" "))
    }
}

/// The flag without its value; for `--sidecar-flag=--max-tunnels=5`, including the sidecar's flag.
fn name(word: &str) -> &str {
    match word.split_once('=') {
        Some((_, value)) if value.starts_with("--") => {
            value.find('=').map_or(word, |at| &word[..word.len() - value.len() + at])
        }
        Some((flag, _)) => flag,
        None => word,
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;
    use crate::cli::InstallArgs;

    fn flags(words: &[&str]) -> RecordedFlags {
        let command = InstallArgs::augment_args(Command::new("install"));
        let matches = command.clone().get_matches_from([&["install"], words].concat());
        RecordedFlags::of(&matches, &command, &["dry-run", "timeout"])
    }

    #[test]
    fn flags_are_recorded_as_they_can_be_given_again() {
        let given = ["--replicas", "3", "--host-network", "--requests=cpu=1,memory=2Gi", "--dry-run"];
        let recorded =
            flags(&[&given[..], &["--sidecar-flag=--v=2", "--toleration=a=b:NoSchedule"]].concat());
        assert_eq!(
            recorded.to_string(),
            "--replicas=3 --host-network --requests=cpu=1 --requests=memory=2Gi --toleration=a=b:NoSchedule --sidecar-flag=--v=2"
        );
        let again: Vec<_> = recorded.0.iter().map(String::as_str).collect();
        assert_eq!(flags(&again), recorded);
        assert_eq!(flags(&["--timeout=1m"]), RecordedFlags::default());
    }

    #[test]
    fn name_of_a_flag_ends_before_its_value() {
        for (word, expected) in [
            ("--replicas=3", "--replicas"),
            ("--host-network", "--host-network"),
            ("--sidecar-flag=--v=2", "--sidecar-flag=--v"),
            ("--sidecar-flag=--enable", "--sidecar-flag=--enable"),
            ("--requests=cpu=1", "--requests"),
        ] {
            assert_eq!(name(word), expected);
        }
    }
}
