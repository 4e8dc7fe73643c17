//! Measures a small request over each route: through the host's kube-apiserver, through the direct
//! endpoint, and to the member itself. The direct endpoint is the sidecar's own port.

use anyhow::Result;
use testbed::Cluster;

use crate::requests::{CONNECTIONS, Round, round};
use crate::site::Site;
use crate::table::{Goal, Spread, Table, median};

/// Measures the routes alternately.
pub(crate) fn measure(site: &Site, host: &Cluster, quick: bool) -> Result<Table> {
    let endpoint = &site.member.sidecar;
    let through = endpoint.through(host)?;
    let ways = [&through, endpoint, &site.member.direct];
    ways.iter().try_for_each(|way| way.warm_up())?;
    let mut table = Table::new(&[
        "connections",
        "route",
        "requests/s",
        "p50 ms",
        "CPU µs/request of host and sidecar",
        "of the way through the host",
    ]);
    for (connections, rounds) in CONNECTIONS {
        let mut turns: Vec<[Round; 3]> = Vec::new();
        for number in 0..if quick { 1 } else { rounds } {
            let mut of_turn = [None, None, None];
            for step in 0..3 {
                let at = (number + step) % 3;
                of_turn[at] = Some(round(ways[at], connections)?);
            }
            if let [Some(host), Some(endpoint), Some(member)] = of_turn {
                turns.push([host, endpoint, member]);
            }
        }
        for (at, way) in ways.iter().enumerate() {
            let middle = |of: fn(&Round) -> f64| median(turns.iter().map(|turn| of(&turn[at])));
            let of_host = Spread::of(turns.iter().map(|turn| turn[at].cpu.total / turn[0].cpu.total));
            let added = median(turns.iter().map(|turn| turn[at].load.p50 - turn[2].load.p50));
            let is_endpoint = at == 1;
            let latency = middle(|round| round.load.p50);
            table.row([
                connections.to_string(),
                way.name.to_owned(),
                format!("{:.0}", middle(|round| round.load.rate)),
                match is_endpoint && connections == 1 {
                    true => format!("{latency:.2} ({added:+.2}, {})", Goal::AtMost(0.3).verdict(added)),
                    false => format!("{latency:.2}"),
                },
                if way.pids.is_empty() {
                    String::new()
                } else {
                    format!("{:.0}", middle(|round| round.cpu.total))
                },
                match (way.pids.is_empty(), is_endpoint) {
                    (true, _) => String::new(),
                    (false, true) => format!("{of_host} ({})", Goal::AtMost(0.5).verdict(of_host.median)),
                    (false, false) => "1".to_owned(),
                },
            ]);
        }
    }
    Ok(table)
}
