//! Which functions of the sidecar a request runs through, as the linker script that lays them side by side.
//!
//! A member that works between two requests fills the caches, and then a request costs what it touches: left where the
//! compiler puts them, its functions are on twice as many pages. The sidecar runs under callgrind and is
//! asked by a client and by the host's kube-apiserver. What is executed for every second request counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::bed::{host, sidecar};
use harness::http1::member_path;

use crate::site::Site;
use crate::way::CONFIG_MAP;
use crate::wrk;

#[derive(Args)]
pub(crate) struct Layout {
    /// The program that the sidecar runs, with its symbols
    #[arg(long)]
    program: PathBuf,
    /// Where callgrind writes: it was started with --instr-atstart=no --dump-instr=yes --demangle=no
    #[arg(long)]
    account: PathBuf,
    /// The linker script to write
    #[arg(long)]
    script: PathBuf,
}

/// What one pattern stands for.
#[derive(Default)]
struct Functions {
    /// All of them, in bytes.
    size: u64,
    /// What a request touches of them.
    lines: HashSet<u64>,
    /// The loads that do: a bit each.
    loads: u32,
}

impl Layout {
    pub(crate) fn find(&self) -> Result<()> {
        let site = Site::new()?;
        let clients = || {
            let way = &site.member.sidecar;
            Ok(wrk::run(&way.url(), &way.headers(), 1, Duration::from_secs(5))?.requests as u64)
        };
        let hosts = || {
            let (host, path) = (host()?, member_path("m1", CONFIG_MAP));
            (0..HOSTS).try_for_each(|_| host.get(&path).map(drop))?;
            Ok(HOSTS)
        };
        let loads: [&dyn Fn() -> Result<u64>; 2] = [&clients, &hosts];
        let mut all = HashMap::<String, Functions>::new();
        for (symbol, size) in symbols(&self.program)? {
            if let Some(pattern) = pattern(&symbol) {
                all.entry(pattern).or_default().size += size;
            }
        }
        for (number, load) in loads.into_iter().enumerate() {
            for (symbol, line) in self.executed(number + 1, load)? {
                if let Some(functions) = pattern(&symbol).and_then(|pattern| all.get_mut(&pattern)) {
                    functions.lines.insert(line);
                    functions.loads |= 1 << number;
                }
            }
        }
        let mut dense = all.iter().filter(|(_, functions)| functions.density() >= DENSE).collect::<Vec<_>>();
        // What all loads run through is between what one of them does.
        dense.sort_by(|(one, a), (other, b)| {
            let order = a.order().cmp(&b.order());
            order.then(b.density().total_cmp(&a.density())).then_with(|| one.cmp(other))
        });
        let names = dense.iter().map(|(pattern, _)| format!("    *(.text.{pattern})\n")).collect::<String>();
        fs::write(&self.script, format!("{HEAD}{names}{TAIL}"))?;

        let sum = |of: fn(&Functions) -> u64| dense.iter().map(|(_, functions)| of(functions)).sum::<u64>();
        let (size, touched) = (sum(|f| f.size), sum(|f| f.lines.len() as u64 * LINE));
        let told = format!("{} names, {size} bytes, of which requests touch {touched}", dense.len());
        Ok(writeln!(std::io::stdout(), "{told}")?)
    }

    /// What is executed for every second request of a load.
    fn executed(&self, number: usize, load: &dyn Fn() -> Result<u64>) -> Result<HashSet<(String, u64)>> {
        // What is made once, connections among it, is not what is sought.
        load()?;
        control(&["--instr=on"])?;
        let requests = load()?;
        control(&["--instr=off"])?;
        control(&["--dump"])?;
        let file = format!("{}.{number}", self.account.display());
        let account = fs::read_to_string(&file).with_context(|| format!("callgrind wrote no {file}"))?;
        ensure!(requests >= 100, "{requests} requests are too few to tell what each runs through");
        let times = times(&account).context("not an account of callgrind's")?;
        let often = times.into_iter().filter(|(_, times)| 2 * times >= requests);
        Ok(often.map(|((function, address), _)| (function.to_owned(), address / LINE)).collect())
    }
}

impl Functions {
    /// How much of them is executed.
    fn density(&self) -> f64 {
        self.lines.len() as f64 * LINE as f64 / self.size.max(1) as f64
    }

    /// Clients' alone, then everybody's, then the host's alone.
    fn order(&self) -> u32 {
        [0, 0, 2, 1].get(self.loads as usize).copied().unwrap_or_default()
    }
}

/// How often each instruction of each function was executed
/// (<https://valgrind.org/docs/manual/cl-format.html>).
fn times(account: &str) -> Option<BTreeMap<(&str, u64), u64>> {
    let (mut names, mut times) = (HashMap::new(), BTreeMap::new());
    let (mut function, mut address, mut of_call) = ("", 0_u64, false);
    for line in account.lines() {
        if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            // Told once, and later by its number.
            let (number, told) = name.split_once(' ').unwrap_or((name, ""));
            let told = told.split_once('\'').map_or(told, |(name, _recursion)| name);
            let name = *names.entry(number).or_insert(told);
            if line.starts_with('f') {
                function = name;
            }
        } else if line.starts_with("calls=") {
            // The next line is what the function that is called took.
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let mut columns = line.split(' ');
            address = moved(address, columns.next()?)?;
            let executed = columns.nth(1)?.parse::<u64>().ok()?;
            if !std::mem::take(&mut of_call) {
                *times.entry((function, address)).or_default() += executed;
            }
        }
    }
    Some(times)
}

fn moved(from: u64, to: &str) -> Option<u64> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    };
    match to.as_bytes() {
        b"*" => Some(from),
        [b'+', ..] => from.checked_add(number(&to[1..])?),
        [b'-', ..] => from.checked_sub(number(&to[1..])?),
        _ => number(to),
    }
}

/// The name of a section without what differs between builds; nothing where it does not bear its function's name.
fn pattern(symbol: &str) -> Option<String> {
    if let Some(name) = symbol.strip_prefix("aws_lc_") {
        let name = name.trim_start_matches(|version: char| version.is_ascii_digit() || version == '_');
        return Some(format!("aws_lc_*_{name}"));
    }
    let hash = symbol.strip_prefix("_ZN")?.rfind("17h")?;
    Some(format!("{}*", &symbol[..hash + "_ZN17h".len()]))
}

/// The functions of a program, and how many bytes each has.
fn symbols(program: &Path) -> Result<Vec<(String, u64)>> {
    let output = Command::new("nm").arg("--print-size").arg(program).output().context("cannot start: nm")?;
    ensure!(output.status.success(), "nm: {}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout)?;
    let symbol = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [_, size, "t" | "T" | "w" | "W", name] => {
            Some((name.to_owned(), u64::from_str_radix(size, 16).ok()?))
        }
        _ => None,
    };
    Ok(symbols.lines().filter_map(symbol).collect())
}

fn control(words: &[&str]) -> Result<()> {
    let pid = sidecar()?.pid.to_string();
    let output = Command::new("callgrind_control").args(words).arg(pid).output();
    let output = output.context("cannot start: callgrind_control")?;
    ensure!(output.status.success(), "callgrind_control: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Bytes of a line of the cache.
const LINE: u64 = 64;
/// Requests by way of the host.
const HOSTS: u64 = 200;
/// How much of what a name stands for is executed at least. Below it are generic functions of a hundred types.
const DENSE: f64 = 0.03;
const HEAD: &str = "\
/* What a request runs through lies together in the program: what clients' do alone, what all do, what the host's do.
   `make layout` makes this file of a run. A name that does not exist any more does no harm. */
SECTIONS
{
  .text.request :
  {
";
const TAIL: &str = "  }
}
INSERT BEFORE .text;
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_counts_where_it_is_and_not_where_it_is_called_from() {
        let account = "\
positions: instr line
events: Ir
fn=(1) one
0x10 0 7
+3 0 7
cfn=(2) other'2
calls=7 0x100
* 0 700
+1 5 1

fn=(2)
0x100 0 7
-0x10 0 2
fn=(1)
0x10 0 3
";
        let times = times(account).unwrap();
        let expected =
            [("one", 0x10, 10), ("one", 0x13, 7), ("one", 0x14, 1), ("other", 0x100, 7), ("other", 0xf0, 2)];
        assert_eq!(times, expected.map(|(name, address, times)| ((name, address), times)).into());
    }

    #[test]
    fn a_name_fits_the_next_build() {
        for (symbol, expected) in [
            ("_ZN7sidecar7handler7respond17h0123456789abcdefE", Some("_ZN7sidecar7handler7respond17h*")),
            (
                "_ZN7sidecar7handler7respond17h0123456789abcdefE.llvm.1",
                Some("_ZN7sidecar7handler7respond17h*"),
            ),
            ("aws_lc_0_47_0_AES_encrypt", Some("aws_lc_*_AES_encrypt")),
            ("malloc", None),
        ] {
            assert_eq!(pattern(symbol).as_deref(), expected);
        }
    }
}
