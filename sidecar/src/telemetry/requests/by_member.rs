//! Counts requests by member. A member's series are removed with its registration, so their number stays
//! bounded by the number of members.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use ahash::HashMap;
use http::StatusCode;
use kubectl_mc_api::{ClusterName, Hop};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, EncodeMetric, LabelSetEncoder,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Unit;

use super::Kind;
use crate::base::locked::Locked;

/// The requests to all members, and the requests without a member.
#[derive(Debug, Default)]
pub struct ByMember {
    none: Counters,
    members: Locked<BTreeMap<ClusterName, Weak<OfMember>>>,
}

/// The requests to one member.
#[derive(Debug, Default)]
pub struct OfMember {
    requests: Counters,
    /// Created by the first request.
    duration: OnceLock<Histogram>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// See [`Outcome::new`].
    code: u16,
    /// The hop that refused.
    hop: Option<Hop>,
}

impl Outcome {
    /// No code means that there was no response, which counts as 0. A code without a standard name
    /// counts under its class (such as 500), so a member cannot add series with invented codes.
    pub fn new(code: Option<StatusCode>, hop: Option<Hop>) -> Self {
        let code = code.map_or(0, |code| match code.canonical_reason() {
            Some(_) => code.as_u16(),
            None => code.as_u16() / 100 * 100,
        });
        Self { code, hop }
    }
}

#[derive(Debug, Default)]
struct Counters(Locked<HashMap<(Kind, Outcome), Counter>>);

impl ByMember {
    /// The requests to a member, until the last holder drops them.
    pub fn of(&self, member: &ClusterName) -> Arc<OfMember> {
        self.members.with(|members| {
            members.retain(|_, requests| requests.strong_count() > 0);
            if let Some(requests) = members.get(member).and_then(Weak::upgrade) {
                return requests;
            }
            let requests = Arc::new(OfMember::default());
            members.insert(member.clone(), Arc::downgrade(&requests));
            requests
        })
    }

    pub(super) fn ended(&self, kind: Kind, outcome: Outcome, member: Option<&OfMember>, elapsed: Duration) {
        let Some(member) = member else { return self.none.count(kind, outcome) };
        member.requests.count(kind, outcome);
        // The duration of a long-running request says nothing about the member.
        if !kind.is_long_running() {
            member.duration.get_or_init(|| Histogram::new(BUCKETS)).observe(elapsed.as_secs_f64());
        }
    }
}

impl Counters {
    fn count(&self, kind: Kind, outcome: Outcome) {
        self.0.with(|counters| counters.entry((kind, outcome)).or_default().inc());
    }

    /// Encodes each counter with the name of a member.
    fn encode(
        &self,
        member: &str,
        encode: &mut impl FnMut(&Labels<'_>, &Counter) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // Outside the lock, because requests need it when they end.
        let counters: Vec<_> =
            self.0.with(|counters| counters.iter().map(|(key, counter)| (*key, counter.clone())).collect());
        counters
            .iter()
            .try_for_each(|((kind, outcome), counter)| encode(&Labels { kind, outcome, member }, counter))
    }
}

impl Collector for ByMember {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let members: Vec<_> = self.members.with(|members| {
            members.iter().filter_map(|(name, of)| Some((name.clone(), of.upgrade()?))).collect()
        });
        let help = "Completed requests by verb, API, status code, member and the hop that refused";
        let mut family = encoder.encode_descriptor("apiserver_request", help, None, Counter::<u64>::TYPE)?;
        let mut encode =
            |labels: &Labels<'_>, counter: &Counter| counter.encode(family.encode_family(labels)?);
        self.none.encode("", &mut encode)?;
        for (name, member) in &members {
            member.requests.encode(name.as_str(), &mut encode)?;
        }
        let help = "Time of the requests to a member that are not long-running";
        let name = "mc_sidecar_member_request_duration";
        let mut family =
            encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (name, member) in &members {
            if let Some(duration) = member.duration.get() {
                duration.encode(family.encode_family(&[("cluster", name.as_str())])?)?;
            }
        }
        Ok(())
    }
}

struct Labels<'a> {
    kind: &'a Kind,
    outcome: &'a Outcome,
    member: &'a str,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), Error> {
        self.kind.encode(encoder)?;
        let Outcome { code, hop } = *self.outcome;
        ("code", code).encode(encoder.encode_label())?;
        ("cluster", self.member).encode(encoder.encode_label())?;
        ("hop", hop.map_or("", Hop::as_str)).encode(encoder.encode_label())
    }
}

/// Fewer than for all requests, because there may be thousands of members.
const BUCKETS: [f64; 10] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
