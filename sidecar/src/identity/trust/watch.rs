//! Watches the host's ConfigMap and keeps [`Trust`] in sync with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use tracing::{info, warn};

use super::Trust;
use crate::host::watch_backoff::WatchBackoff;
use crate::observe::readiness::Pending;

/// Watches the ConfigMap until the process ends. `flags` override the keys that they name.
/// `pending` is done once the first version is in force.
pub async fn run(
    host: kube::Client,
    flags: BTreeMap<String, String>,
    trust: Arc<ArcSwap<Trust>>,
    pending: Pending,
) {
    let config_maps: Api<ConfigMap> = Api::namespaced(host, NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut events = std::pin::pin!(watcher(config_maps, config).backoff(WatchBackoff::default()));
    let mut state = State { flags, trust, pending: Some(pending), listed: false };
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => state.event(event),
            Err(error) => {
                warn!(config_map = NAME, error = %error, "cannot read the ConfigMap: keeping its last content");
            }
        }
    }
}

struct State {
    flags: BTreeMap<String, String>,
    trust: Arc<ArcSwap<Trust>>,
    /// `Some` until the first version is in force.
    pending: Option<Pending>,
    /// Whether the current list contains the ConfigMap.
    listed: bool,
}

impl State {
    fn event(&mut self, event: Event<ConfigMap>) {
        match event {
            Event::Init => self.listed = false,
            Event::InitApply(map) => {
                self.listed = true;
                self.apply(map);
            }
            Event::Apply(map) => self.apply(map),
            Event::InitDone if !self.listed => self.without_config_map(),
            Event::InitDone => {}
            Event::Delete(_) => {
                warn!(config_map = NAME, "the ConfigMap was deleted: keeping its last content")
            }
        }
    }

    fn apply(&mut self, map: ConfigMap) {
        let mut data = map.data.unwrap_or_default();
        data.extend(self.flags.clone());
        match Trust::parse(&data) {
            Ok(trust) => self.put_in_force(trust),
            Err(error) => {
                warn!(config_map = NAME, error = %error, "the ConfigMap is invalid: keeping its last content");
            }
        }
    }

    /// Falls back to the flags if they set a CA. Otherwise no certificate could be verified, so the sidecar
    /// stays unready: a starting host writes the ConfigMap only after a while.
    fn without_config_map(&mut self) {
        if self.pending.is_none() {
            warn!(config_map = NAME, "the ConfigMap does not exist: keeping its last content");
            return;
        }
        match Trust::parse(&self.flags) {
            Ok(trust) if trust.is_any() => {
                warn!(
                    config_map = NAME,
                    namespace = NAMESPACE,
                    "the ConfigMap does not exist: using the flags only"
                );
                self.put_in_force(trust);
            }
            Ok(_) => warn!(
                config_map = NAME,
                namespace = NAMESPACE,
                "the ConfigMap does not exist and no flag sets a CA: not ready"
            ),
            Err(error) => warn!(
                config_map = NAME,
                namespace = NAMESPACE,
                error = %error,
                "the ConfigMap does not exist and the flags are invalid: not ready"
            ),
        }
    }

    fn put_in_force(&mut self, trust: Trust) {
        let front_proxy = trust.front_proxy.is_some();
        info!(config_map = NAME, front_proxy, "updated the trusted CAs");
        self.trust.store(Arc::new(trust));
        self.pending.take();
    }
}

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::trust::tests::Ca;
    use crate::observe::readiness::{Part, Readiness};

    fn state(flags: &[(&str, &str)]) -> (State, Readiness) {
        let readiness = Readiness::default();
        let flags = flags.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let pending = Some(readiness.pending(Part::Trust));
        (State { flags, trust: Arc::default(), pending, listed: false }, readiness)
    }

    fn nothing_listed(state: &mut State) {
        state.event(Event::Init);
        state.event(Event::InitDone);
    }

    #[test]
    fn flags_without_the_config_map_are_enough_to_be_ready() {
        let ca = Ca::new().pem();
        let front_proxy = [
            ("requestheader-client-ca-file", ca.as_str()),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ];
        for flags in [&[("client-ca-file", ca.as_str())][..], &front_proxy] {
            let (mut state, readiness) = state(flags);
            nothing_listed(&mut state);
            assert!(readiness.is_ready() && state.trust.load().is_any());
        }
    }

    #[test]
    fn sidecar_is_not_ready_without_any_ca() {
        for flags in [&[][..], &[("requestheader-allowed-names", "[]")], &[("client-ca-file", "no PEM")]] {
            let (mut state, readiness) = state(flags);
            nothing_listed(&mut state);
            assert!(!readiness.is_ready());
            state.flags.clear();
            state.event(Event::Apply(ConfigMap::default()));
            assert!(readiness.is_ready(), "a ConfigMap that appears is in force");
        }
    }

    #[test]
    fn fault_20_trust_survives_deletion_of_the_config_map() {
        let (mut state, readiness) = state(&[]);
        let data = BTreeMap::from([("client-ca-file".to_owned(), Ca::new().pem())]);
        let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        state.event(Event::Init);
        state.event(Event::InitApply(map.clone()));
        assert!(readiness.is_ready());
        state.event(Event::InitDone);
        state.event(Event::Delete(map));
        nothing_listed(&mut state);
        assert!(readiness.is_ready() && state.trust.load().is_any());
    }
}
