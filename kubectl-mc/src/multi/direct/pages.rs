//! Tracks the pages of a list. A limit stops a member that always claims to have more.

use super::member::Query;
use crate::multi::fault::Fault;

/// The position in a list.
#[derive(Debug, Default)]
pub(super) struct Pages {
    token: String,
    taken: usize,
}

impl Pages {
    /// Adds the page to a query.
    pub(super) fn query(&self, query: Query) -> Query {
        let token = Some(self.token.as_str()).filter(|token| !token.is_empty());
        query.with("limit", CHUNK).with_some("continue", token)
    }

    /// Stores the token of a page; returns whether there is another page.
    pub(super) fn has_next(&mut self, token: String) -> Result<bool, Fault> {
        self.taken += 1;
        self.token = token;
        match self.token.is_empty() {
            true => Ok(false),
            false if self.taken < MAX_PAGES => Ok(true),
            false => Err(Fault::Unreadable(format!("a list of more than {MAX_PAGES} pages").into())),
        }
    }
}

const CHUNK: &str = "500";
/// Enough for a million objects: Kubernetes is designed for 150,000 pods.
const MAX_PAGES: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_is_requested_by_the_previous_continue_token() {
        let mut pages = Pages::default();
        assert_eq!(pages.query(Query::default()).to_string(), "?limit=500");
        assert!(pages.has_next("more".to_owned()).unwrap());
        assert_eq!(pages.query(Query::default()).to_string(), "?limit=500&continue=more");
        assert!(!pages.has_next(String::new()).unwrap());
    }

    #[test]
    fn endless_list_is_refused() {
        let mut pages = Pages::default();
        for _ in 1..MAX_PAGES {
            assert!(pages.has_next("more".to_owned()).unwrap());
        }
        assert!(pages.has_next("more".to_owned()).is_err());
    }
}
