//! Copies kubeconfigs that come through a pipe, as in `--kubeconfig <(sops -d k)`: a pipe can be
//! read only once, but the programs of a command read their kubeconfig several times. Only the user
//! can read a copy, and it is deleted when the command ends.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{load, parse};
use crate::cache::{self, COPY, RunFolder};
use crate::env::{self, Env};
use crate::error::{Context, Failure};
use crate::exit::ExitStatus;

/// A command line and an environment that name the copies.
pub(crate) struct Piped {
    pub(crate) words: Vec<OsString>,
    pub(crate) env: Env,
    _folder: RunFolder,
}

impl Piped {
    /// Copies the pipes that the flags and `KUBECONFIG` name; `None` if there are none.
    pub(crate) fn take(words: &[OsString], env: &Env) -> Result<Option<Self>, Failure> {
        let copied = Self::take_by(words, env, |pipe| std::fs::read(pipe));
        copied.map_err(|failure| failure.with_status(ExitStatus::Usage))
    }

    /// The same for a completion, which cannot wait long for the program behind a pipe.
    pub(crate) fn take_within(
        limit: Duration,
        words: &[OsString],
        env: &Env,
    ) -> Result<Option<Self>, Failure> {
        let end = Instant::now() + limit;
        Self::take_by(words, env, |pipe| read_until(end, pipe))
    }

    fn take_by(
        words: &[OsString],
        env: &Env,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Option<Self>, Failure> {
        let list: Vec<_> =
            env.var(env::KUBECONFIG).map(|list| std::env::split_paths(list).collect()).unwrap_or_default();
        let by_flag = flags(words).map(|(_, file)| PathBuf::from(file));
        let pipes: Vec<PathBuf> = by_flag.chain(list.iter().cloned()).filter(|file| is_pipe(file)).collect();
        if pipes.is_empty() {
            return Ok(None);
        }
        let folder = RunFolder::new(&cache::state_folder(env)?);
        let mut copies = BTreeMap::new();
        for pipe in pipes {
            if !copies.contains_key(&pipe) {
                let bytes = read(&pipe).context(|| format!("cannot read kubeconfig {}", pipe.display()))?;
                let copy = folder.write(&format!("{COPY}{}", copies.len()), &with_paths(bytes, &pipe))?;
                copies.insert(pipe, copy);
            }
        }
        let mut copied = words.to_vec();
        for (at, file) in flags(words) {
            let Some(copy) = copies.get(Path::new(&file)) else { continue };
            copied[at] = match name_of(&words[at]) {
                Some(name) => {
                    let mut word = OsString::from(format!("{name}="));
                    word.push(copy);
                    word
                }
                None => copy.into(),
            };
        }
        let mut env = env.clone();
        if list.iter().any(|file| copies.contains_key(file)) {
            let list = list.iter().map(|file| copies.get(file).unwrap_or(file));
            // The copies have no separator in their names.
            if let Ok(list) = std::env::join_paths(list) {
                env = env.with(env::KUBECONFIG, &list);
            }
        }
        Ok(Some(Self { words: copied, env, _folder: folder }))
    }
}

/// Reads a pipe in a separate thread, because a pipe without a writer blocks forever.
fn read_until(end: Instant, pipe: &Path) -> io::Result<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let pipe = pipe.to_owned();
    std::thread::Builder::new().spawn(move || {
        // Without a receiver, the limit has passed.
        let _ = sender.send(std::fs::read(pipe));
    })?;
    let left = end.saturating_duration_since(Instant::now());
    receiver.recv_timeout(left).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The flags that name a kubeconfig: the position of the word with the file, and the file.
fn flags(words: &[OsString]) -> impl Iterator<Item = (usize, OsString)> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    (0..end).filter_map(move |at| {
        if let Some(name) = name_of(&words[at]) {
            let value = &words[at].as_encoded_bytes()[name.len() + 1..];
            return Some((at, OsString::from(str::from_utf8(value).ok()?)));
        }
        let is_value = at > 0 && FLAGS.iter().any(|flag| words[at - 1] == *flag);
        is_value.then(|| (at, words[at].clone()))
    })
}

/// The flag of `--flag=value`.
fn name_of(word: &OsStr) -> Option<&'static str> {
    let (name, _) = word.to_str()?.split_once('=')?;
    FLAGS.into_iter().find(|flag| *flag == name)
}

#[cfg(unix)]
fn is_pipe(file: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

/// The kubeconfig with its paths resolved against the folder of the pipe. A text that is not a
/// kubeconfig stays unchanged, for the error that names it.
fn with_paths(bytes: Vec<u8>, pipe: &Path) -> Vec<u8> {
    let (Ok(mut kubeconfig), Ok(absolute)) = (parse::parsed(&bytes), std::path::absolute(pipe)) else {
        return bytes;
    };
    load::resolve_paths(&mut kubeconfig, absolute.parent().unwrap_or_else(|| Path::new("/")));
    serde_json::to_vec(&kubeconfig).unwrap_or(bytes)
}

const FLAGS: [&str; 2] = ["--kubeconfig", "--member-kubeconfig"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_before_a_double_dash_name_kubeconfigs() {
        let words =
            ["-C", "m1", "--kubeconfig", "/a", "get", "--member-kubeconfig=/b", "--", "--kubeconfig=/c"];
        let words = words.map(OsString::from);
        let found: Vec<_> = flags(&words).collect();
        assert_eq!(found, [(3, "/a".into()), (5, "/b".into())]);
    }
}
