//! Measures the time of a Cluster Authorization decision over requests of every kind, verb and target, and
//! prints a Markdown table. `cargo run --release -p kubectl-mc-api --example decide_cost`; `bench --only
//! authz` prints it too.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use kubectl_mc_api::ownership::matrix::cells;
use kubectl_mc_api::ownership::{Layout, decide, subject};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let layout = Layout::default();
    let cells = cells(&layout, "a", "b", &["", "status", "finalizers", "unknown"]);
    let (user, groups) = (subject::user("a"), [subject::GROUP, "system:authenticated"]);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for cell in &cells {
            black_box(decide(&layout, black_box(&user), &groups, &cell.attributes()));
        }
        times.push(begun.elapsed().as_secs_f64() * 1e6 / cells.len() as f64);
    }
    times.sort_by(f64::total_cmp);
    let (middle, worst) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    writeln!(out, "| requests | µs each | slowest round | goal |\n|---|---|---|---|")?;
    let verdict = if middle <= GOAL { "met" } else { "**not met**" };
    writeln!(out, "| {} | {middle:.2} | {worst:.2} | ≤ {GOAL}: {verdict} |", cells.len())?;
    Ok(())
}

const ROUNDS: usize = 200;
/// µs
const GOAL: f64 = 20.0;
