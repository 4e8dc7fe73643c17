//! The headers that were made last on one connection. Most connections are one caller's, and an identity
//! that is known from before is the same object each time: then they need not be made again.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kubectl_mc_api::member_cluster::Forwarded;

use super::{Error, Headers, Rules};
use crate::identity::Identity;

/// What one connection remembers.
#[derive(Debug, Default)]
pub struct LastMade(ArcSwapOption<Made>);

#[derive(Debug)]
struct Made {
    /// Held, so that no other identity can be in its place.
    identity: Arc<Identity>,
    forwarded: Forwarded,
    headers: Arc<Headers>,
}

impl LastMade {
    /// What [`Headers::new`] makes. The rules are the same each time.
    pub fn headers(
        &self,
        rules: &Rules,
        identity: &Arc<Identity>,
        forwarded: Forwarded,
    ) -> Result<Arc<Headers>, Error> {
        if let Some(made) = &*self.0.load()
            && Arc::ptr_eq(&made.identity, identity)
            && made.forwarded == forwarded
        {
            return Ok(made.headers.clone());
        }
        let headers = Arc::new(Headers::new(rules, identity, forwarded)?);
        let made = Made { identity: identity.clone(), forwarded, headers: headers.clone() };
        self.0.store(Some(Arc::new(made)));
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use kubectl_mc_api::member_cluster::Forwarding;

    use super::*;

    #[test]
    fn each_identity_and_each_member_gets_its_own() {
        let last = LastMade::default();
        let rules = Rules::default();
        let shown = |identity: &Arc<Identity>, forwarded| {
            let mut headers = HeaderMap::new();
            last.headers(&rules, identity, forwarded).unwrap().apply(&mut headers).unwrap();
            let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            (text("impersonate-user").unwrap(), text("impersonate-uid"))
        };
        let somebody = |user: &str| {
            Arc::new(Identity { user: user.to_owned(), uid: Some("1".to_owned()), ..Identity::default() })
        };
        let (jane, ann) = (somebody("jane"), somebody("ann"));
        let without_uid = Forwarded { uid: Forwarding::Omit, ..Forwarded::default() };
        for _ in 0..2 {
            assert_eq!(shown(&jane, Forwarded::default()), ("jane".to_owned(), Some("1".to_owned())));
            assert_eq!(shown(&jane, without_uid), ("jane".to_owned(), None));
            assert_eq!(shown(&ann, without_uid), ("ann".to_owned(), None));
            assert_eq!(shown(&ann, without_uid), ("ann".to_owned(), None));
        }
    }
}
