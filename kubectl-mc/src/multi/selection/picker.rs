//! Prompts for clusters at the terminal if none is chosen: with a list that the user filters by
//! typing or, on simple terminals, with a numbered list and lines of input.

#[cfg(unix)]
mod filter;
#[cfg(unix)]
mod key;
#[cfg(unix)]
mod menu;
mod numbered_list;
#[cfg(unix)]
mod raw_mode;
#[cfg(unix)]
mod screen;

use std::io::{self, BufReader, IsTerminal};

use super::choice::Choice;
use super::selected_clusters::SelectedCluster;
use super::term::Kind;
#[cfg(unix)]
use crate::env;
use crate::env::Env;

/// The result of the prompt.
#[derive(Debug, PartialEq)]
pub(crate) enum Picked {
    Choice(Choice),
    #[cfg_attr(not(unix), expect(dead_code, reason = "the numbered list ends by Ctrl-C's own action"))]
    /// By Esc, Ctrl-C, Ctrl-D or a signal.
    Cancelled,
    /// No cluster was picked, or there is no terminal.
    Nothing,
}

/// Shows the clusters and reads the choice.
pub(crate) fn pick(all: &[SelectedCluster], kind: Kind, env: &Env) -> Picked {
    if all.is_empty() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Picked::Nothing;
    }
    #[cfg(not(unix))]
    let _ = env;
    #[cfg(unix)]
    if env.var(env::TERM).is_some_and(|term| term != "dumb")
        && let Ok(picked) = screen::pick(all)
    {
        return picked;
    }
    let choice = numbered_list::pick(all, kind, &mut BufReader::new(io::stdin()), &mut io::stderr());
    choice.ok().flatten().map_or(Picked::Nothing, Picked::Choice)
}
