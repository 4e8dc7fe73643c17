//! Measures many idle tunnels through one sidecar: WebSockets like those of kubectl exec, first
//! with only a prompt, and then after a screenful has passed.

use anyhow::{Result, ensure};
use harness::http1::{Connection, member_path};
use harness::own_sidecar::OwnSidecar;
use harness::usage;

use crate::member::{PROMPT, SCREENFUL};
use crate::site::Site;
use crate::table::{Goal, Table};
use crate::usage::Cpu;

pub(crate) fn measure(site: &Site, quick: bool) -> Result<Table> {
    let tunnels = if quick { 100 } else { 1_000 };
    let (member, _) = site.endless_member("endless")?;
    let sidecar = OwnSidecar::start()?;
    // The first few also allocate what is shared by all.
    let mut open = (0..WARM_UP).map(|_| tunnel(site, &sidecar)).collect::<Result<Vec<_>>>()?;
    open.iter_mut().try_for_each(type_into)?;
    let (before, cpu) = (usage::resident(sidecar.pid())?, Cpu::of(&[sidecar.pid()])?);
    let each = |total: f64| total / f64::from(tunnels);
    let taken = || Ok::<_, anyhow::Error>(each((usage::resident(sidecar.pid())? - before) as f64 / 1e3));

    let mut table = Table::new(&["tunnels", "resident memory of each", "goal", "CPU to open one"]);
    let mut crowd = (0..tunnels).map(|_| tunnel(site, &sidecar)).collect::<Result<Vec<_>>>()?;
    let cpu = each((Cpu::of(&[sidecar.pid()])? - cpu).total * 1e3);
    let with_a_prompt = taken()?;
    crowd.iter_mut().try_for_each(type_into)?;
    let used = taken()?;
    let goal = Goal::AtMost(64.0);
    table.row([
        format!("{tunnels} with a prompt"),
        format!("{with_a_prompt:.1} KB"),
        goal.verdict(with_a_prompt),
        format!("{cpu:.2} ms"),
    ]);
    table.row([
        format!("{tunnels} after 64 KiB"),
        format!("{used:.1} KB"),
        goal.verdict(used),
        String::new(),
    ]);
    drop((open, crowd, member));
    Ok(table)
}

fn tunnel(site: &Site, sidecar: &OwnSidecar) -> Result<Connection> {
    let mut connection = sidecar.endpoint(None)?.connect()?;
    let path = member_path("endless", "/api/v1/namespaces/default/pods/main/exec?command=sh&stdin=true");
    connection.send(
        format!(
            "GET {path} HTTP/1.1\r\nHost: sidecar\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            site.token()?
        )
        .as_bytes(),
    )?;
    let head = connection.head()?;
    ensure!(head.status == 101, "no tunnel: {head:?}");
    connection.exactly(PROMPT.len())?;
    Ok(connection)
}

fn type_into(connection: &mut Connection) -> Result<()> {
    connection.send(b"x")?;
    connection.exactly(SCREENFUL)?;
    Ok(())
}

const WARM_UP: usize = 20;
