//! Keeps the objects of one kind by cluster, from the events of a watch.

use std::collections::HashMap;
use std::sync::Arc;

use kube::runtime::watcher;
use kubectl_mc_api::ClusterName;

/// The objects of one kind by cluster, and the list that is being read.
pub(super) struct Listed<T> {
    pub(super) objects: HashMap<ClusterName, Arc<T>>,
    anew: Option<HashMap<ClusterName, Arc<T>>>,
    pub(super) synced: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { objects: HashMap::new(), anew: None, synced: false }
    }
}

impl<T: Clone> Listed<T> {
    /// Applies an event. Objects without a `cluster` are ignored.
    pub(super) fn take(&mut self, event: &watcher::Event<T>, cluster: impl Fn(&T) -> Option<ClusterName>) {
        match event {
            watcher::Event::Init => self.anew = Some(HashMap::new()),
            watcher::Event::InitApply(object) => {
                if let (Some(name), Some(anew)) = (cluster(object), &mut self.anew) {
                    anew.insert(name, Arc::new(object.clone()));
                }
            }
            watcher::Event::InitDone => {
                self.objects = self.anew.take().unwrap_or_default();
                self.synced = true;
            }
            watcher::Event::Apply(object) => {
                if let Some(name) = cluster(object) {
                    self.objects.insert(name, Arc::new(object.clone()));
                }
            }
            watcher::Event::Delete(object) => {
                if let Some(name) = cluster(object) {
                    self.objects.remove(&name);
                }
            }
        }
    }
}
