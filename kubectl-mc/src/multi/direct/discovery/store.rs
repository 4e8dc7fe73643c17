//! The cache of discovery in the private folder. It has the TTL of kubectl's own, and is refreshed when a word is
//! not found.

use std::time::SystemTime;

use crate::cluster::cluster_id::ClusterId;

use super::Discovery;
use crate::cache::Cache;
use crate::cluster::context::ClusterContext;
use crate::kubectl::overlay::server;

/// Where discovery is kept. Without a folder nothing is kept, and everything works.
pub(in crate::multi::direct) struct Store {
    cache: Option<Cache>,
}

impl Store {
    pub(in crate::multi::direct) fn new(cache: Option<Cache>) -> Self {
        Self { cache }
    }

    /// What is known of a member, if it is not too old.
    pub(in crate::multi::direct) fn load(&self, key: &str) -> Option<Discovery> {
        let kept = self.cache.as_ref()?.load_named(KIND, key, SystemTime::now())?;
        serde_json::from_slice(&kept).ok()
    }

    pub(in crate::multi::direct) fn keep(&self, key: &str, discovery: &Discovery) {
        if let (Some(cache), Ok(text)) = (&self.cache, serde_json::to_vec(discovery)) {
            // Without the cache the next command asks again.
            let _ = cache.store_named(KIND, key, &text, SystemTime::now());
        }
    }

    /// The name under which a cluster's is kept.
    pub(in crate::multi::direct) fn key(through: &ClusterContext, cluster: &ClusterId) -> String {
        server(through, cluster)
    }
}

const KIND: &str = "discovery";
