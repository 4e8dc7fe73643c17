//! Kubeconfigs with which helm, k9s and other tools use members: printed, merged into the user's own file, or for one
//! shell. No file holds a secret: contexts name the user's own entry.
//!
//! - [`selection`]: the host and the chosen clusters
//! - [`entries`]: the cluster and the context of each member
//! - [`users`]: the user's entry, where it can be copied
//! - [`mod@edit`]: edits of the user's file
//! - [`merge`]: `--merge`, by such an edit
//! - [`overlay`]: the file that the environment of a shell names
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
pub(crate) use shell::run as shell;
