//! Compares the parser with upstream's own resolver and long-running check (`tests/request-info` writes the
//! table), and lists every deliberate difference.

use std::collections::BTreeMap;

use super::*;
use crate::endpoints::clusters::accepts;
use crate::head::query::Query;

/// One row: a request, and a kube-apiserver's result for it.
#[derive(Debug)]
struct Row {
    method: &'static str,
    target: &'static str,
    verb: &'static str,
    /// Group, resource and subresource.
    resource: Option<[&'static str; 3]>,
    name: String,
    outcome: &'static str,
}

/// Why a row is not compared.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// kube-apiserver answers 400 or 500 at once, and the sidecar has a deadline for it.
    RefusedByUpstream,
    /// The sidecar refuses a path that a reader could clean into another one.
    DotSegment,
    /// The HTTP library rejects this target.
    NotATarget,
    /// Clusters are read-only.
    Written,
    /// A list or watch with refused options names no cluster, or its name has no effect.
    RefusedOptions,
    /// No cluster can have this name.
    NotAClusterName,
}

#[test]
fn long_running_member_paths_match_upstream() {
    let differences = compare(|row| {
        let info = match parse(row.method, &format!("{M1}/proxy{}", row.target)) {
            Ok(info) => info,
            Err(Error::MemberPath("has a dot segment")) => return Err(Difference::DotSegment),
            Err(Error::MemberPath("has a malformed escape")) if row.outcome == "malformed" => {
                return Err(Difference::RefusedByUpstream);
            }
            Err(error) => panic!("{row:?}: {error}"),
        };
        let outcome = if info.is_long_running { "long" } else { "short" };
        if row.outcome == "unresolved" {
            assert_eq!(outcome, "short", "{row:?}");
            return Err(Difference::RefusedByUpstream);
        }
        assert_eq!(outcome, row.outcome, "{row:?}");
        let Route::Proxy(_, _, path) = info.route else { panic!("{row:?}") };
        let is_inner_proxy = matches!(row.resource, Some(["", "nodes" | "pods" | "services", "proxy"]));
        assert_eq!(path.is_inner_proxy(), is_inner_proxy, "{row:?}");
        Ok(())
    });
    use Difference::{DotSegment, NotATarget, RefusedByUpstream};
    assert_eq!(differences.keys().collect::<Vec<_>>(), [&RefusedByUpstream, &DotSegment, &NotATarget]);
}

#[test]
fn cluster_requests_have_upstreams_verb_and_name() {
    let differences = compare(|row| {
        let (path, query) = row.target.split_once('?').map_or((row.target, None), |(p, q)| (p, Some(q)));
        if row.resource != Some(["proxy.kubectl-mc.dev", "clusters", ""]) || path.contains("/watch/") {
            return Ok(());
        }
        let info = match parse(row.method, row.target) {
            Ok(info) => info,
            Err(Error::Method(_)) if !matches!(row.verb, "get" | "list" | "watch") => {
                return Err(Difference::Written);
            }
            Err(error) => panic!("{row:?}: {error}"),
        };
        assert_eq!(info.verb.as_str(), row.verb, "{row:?}");
        assert_eq!(info.is_long_running, row.outcome == "long", "{row:?}");
        let Route::Clusters(named) = info.route else { panic!("{row:?}") };
        let name = named.or(info.selected).map(|name| name.to_string()).unwrap_or_default();
        if name != row.name {
            if !accepts(info.verb, query) {
                return Err(Difference::RefusedOptions);
            }
            assert!(name.is_empty() && row.name.parse::<ClusterName>().is_err(), "{row:?}");
            return Err(Difference::NotAClusterName);
        }
        Ok(())
    });
    use Difference::{NotAClusterName, NotATarget, RefusedOptions, Written};
    let found: Vec<_> = differences.keys().collect();
    assert_eq!(found, [&NotATarget, &Written, &RefusedOptions, &NotAClusterName]);
}

/// Checks every row, and counts the differing ones by reason.
fn compare(mut judge: impl FnMut(&Row) -> Result<(), Difference>) -> BTreeMap<Difference, usize> {
    let mut differences = BTreeMap::new();
    let mut compared = 0;
    for row in rows() {
        let judged = match row.target.parse::<http::Uri>() {
            Ok(_) => judge(&row),
            Err(_) => Err(Difference::NotATarget),
        };
        match judged {
            Ok(()) => compared += 1,
            Err(difference) => *differences.entry(difference).or_default() += 1,
        }
    }
    assert!(compared > 3000, "{differences:?}");
    differences
}

fn rows() -> impl Iterator<Item = Row> {
    include_str!("../../../../../tests/request-info/requests.tsv").lines().map(|line| {
        let cells: [_; 6] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let [method, target, verb, resource, name, outcome] = cells;
        let resource = resource.splitn(3, "%2F").collect::<Vec<_>>().try_into().ok();
        let name = Query::new(Some(&format!("name={name}"))).first("name").unwrap_or_default().into_owned();
        Row { method, target, verb, resource, name, outcome }
    })
}
