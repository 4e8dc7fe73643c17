//! Limits the users who wait for on-demand access to one member: in total, and for each user, so that one
//! user with many sets of groups does not block others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::base::locked::Locked;

/// The limit of one member, which clones share.
#[derive(Clone, Debug, Default)]
pub struct WaiterLimit(Arc<Locked<HashMap<String, usize>>>);

/// A slot, which is released on drop.
#[derive(Debug)]
pub struct Place {
    limit: WaiterLimit,
    user: String,
}

impl WaiterLimit {
    /// A slot for this user, if one is free.
    pub fn enter(&self, user: &str) -> Option<Place> {
        self.0.with(|waiting| {
            let is_full = waiting.values().sum::<usize>() >= MAX_WAITING;
            if is_full || waiting.get(user).is_some_and(|places| *places >= MAX_WAITING_PER_USER) {
                return None;
            }
            *waiting.entry(user.to_owned()).or_default() += 1;
            Some(Place { limit: self.clone(), user: user.to_owned() })
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.limit.0.with(|waiting| {
            if let Entry::Occupied(mut places) = waiting.entry(std::mem::take(&mut self.user)) {
                *places.get_mut() -= 1;
                if *places.get() == 0 {
                    places.remove();
                }
            }
        });
    }
}

/// The maximum number of slots for one member on one replica.
pub const MAX_WAITING: usize = 32;
/// The maximum number of slots for one user: one for each set of groups, which may change with a login.
pub const MAX_WAITING_PER_USER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_places_for_others() {
        let limit = WaiterLimit::default();
        let own: Vec<_> = (0..10).filter_map(|_| limit.enter("jane")).collect();
        assert_eq!(own.len(), MAX_WAITING_PER_USER);
        let others: Vec<_> = (0..100).filter_map(|number| limit.enter(&format!("user-{number}"))).collect();
        assert_eq!(others.len(), MAX_WAITING - MAX_WAITING_PER_USER);
        drop(own);
        assert!(limit.enter("jane").is_some());
        drop(others);
        assert!(limit.0.with(|waiting| waiting.is_empty()));
    }
}
