//! The request to one member in a round, and the results of all rounds.

use crate::multi::direct::discovery::ApiResource;
use crate::multi::direct::member::Member;
use crate::multi::fault::Fault;

/// The request to one member in a round.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) member: Member,
    pub(super) resource: ApiResource,
    pub(super) names: Option<Vec<String>>,
}

/// The results of the members over all rounds; the first failure of each stays.
pub(super) struct MemberResults(pub(super) Vec<Result<(), Fault>>);

impl MemberResults {
    pub(super) fn new(members: usize) -> Self {
        Self(vec![Ok(()); members])
    }

    pub(super) fn note(&mut self, place: usize, result: Result<(), Fault>) {
        if self.0[place].is_ok() {
            self.0[place] = result;
        }
    }

    pub(super) fn failure(&self, place: usize) -> Option<&Fault> {
        self.0[place].as_ref().err()
    }
}
