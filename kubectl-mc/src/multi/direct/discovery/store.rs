//! Caches discovery in the private folder. The TTL is that of kubectl's cache, and the cache is refreshed if
//! a word is not found.

use std::time::SystemTime;

use crate::cluster::cluster_id::ClusterId;

use super::Discovery;
use crate::cache::Cache;
use crate::cluster::context::ClusterContext;
use crate::env::Env;
use crate::kubectl::overlay::server;

/// The cache of discovery. Without a folder nothing is cached, and commands still work.
pub(in crate::multi::direct) struct Store {
    cache: Option<Cache>,
}

impl Store {
    pub(in crate::multi::direct) fn open(env: &Env) -> Self {
        Self { cache: Cache::open(env).ok() }
    }

    /// The cached types of a member, if they are not too old.
    pub(in crate::multi::direct) fn load(&self, key: &str) -> Option<Discovery> {
        let kept = self.cache.as_ref()?.load_named(KIND, key, SystemTime::now())?;
        serde_json::from_slice(&kept).ok()
    }

    pub(in crate::multi::direct) fn keep(&self, key: &str, discovery: &Discovery) {
        if let (Some(cache), Ok(text)) = (&self.cache, serde_json::to_vec(discovery)) {
            // If the cache cannot be written, the next command sends the request again.
            let _ = cache.store_named(KIND, key, &text, SystemTime::now());
        }
    }

    /// The cache key of a cluster.
    pub(in crate::multi::direct) fn key(through: &ClusterContext, cluster: &ClusterId) -> String {
        server(through, cluster)
    }
}

const KIND: &str = "discovery";
