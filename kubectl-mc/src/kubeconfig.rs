//! Generates kubeconfigs for helm, k9s and other tools: printed, merged into the user's own file, or for one
//! shell. No file contains a secret, because contexts reference the user's own entry.
//!
//! - [`selection`]: the host and the chosen clusters
//! - [`entries`]: the cluster and the context of each member
//! - [`users`]: the user's entry, if it can be copied
//! - [`mod@edit`]: edits of the user's file
//! - [`merge`]: `--merge`, which edits that file
//! - [`overlay`]: the file for the environment of a shell
//! - [`mod@environment`], [`mod@shell`]: the verbs `env` and `shell`

pub(crate) mod edit;
mod entries;
mod environment;
mod merge;
mod overlay;
mod print;
mod selection;
mod shell;
mod users;

pub(crate) use entries::Mark;
pub(crate) use environment::run as environment;
pub(crate) use print::run;
pub(crate) use selection::Chosen;
pub(crate) use shell::run as shell;
