//! Implements `port-forward --keep`: restarts kubectl when it ends after it has forwarded. An earlier error
//! is final, because a restart would not solve it.

use std::fs;
use std::future::ready;
use std::path::PathBuf;

use tokio::sync::mpsc::{self, Sender};

use super::child::{self, Child, Event};
use super::fault::Fault;
use super::interrupt;
use super::pause::Pause;
use crate::cache;
use crate::cluster::client;
use crate::error::Failure;
use crate::exit::ExitStatus;
use crate::kubectl::exec::{Invocation, Kubectl};
use crate::printer::Printer;

/// Runs the children of `make` one after the other. Ends with the first child that forwarded no connection. `renewed`
/// returns another invocation if the credential of the first has expired.
pub(super) async fn run<R>(
    mut invocation: Invocation,
    make: impl Fn(Invocation) -> Child,
    renewed: impl Fn() -> R,
    events: &Sender<Event>,
) -> Result<(), Fault>
where
    R: Future<Output = Result<Option<Invocation>, Fault>>,
{
    let mut overlay = OverlayCopy::read(&invocation);
    let mut pause = Pause::default();
    let mut forwarded = false;
    loop {
        let (sender, mut own) = mpsc::channel(1);
        let child = make(invocation.clone());
        let child = async move { child::run(child, &sender).await };
        let pass_on = async {
            let mut forwards = false;
            while let Some(event) = own.recv().await {
                forwards |= matches!(&event, Event::Out(bytes) if bytes.windows(FORWARDING.len()).any(|part| part == FORWARDING));
                // Without a receiver, the command is ending.
                let _ = events.send(event).await;
            }
            forwards
        };
        let (result, forwards) = tokio::join!(child, pass_on);
        forwarded |= forwards;
        if !forwarded || events.is_closed() {
            return result;
        }
        if forwards {
            pause = Pause::default();
        }
        let time = pause.next();
        let again = format!("the connection was lost; trying again in {time:?}\n");
        let _ = events.send(Event::Err(again.into_bytes())).await;
        tokio::time::sleep(time).await;
        if let Some(renewed) = renewed().await? {
            invocation = renewed;
            overlay = OverlayCopy::read(&invocation);
        } else {
            overlay.as_ref().map_or(Ok(()), OverlayCopy::restore)?;
        }
    }
}

/// The overlay of a connection that may last longer than unused overlays are cached. Without the file,
/// kubectl would use the user's current context.
struct OverlayCopy {
    path: PathBuf,
    content: Vec<u8>,
}

impl OverlayCopy {
    fn read(invocation: &Invocation) -> Option<Self> {
        let path = std::env::split_paths(&invocation.kubeconfig).next()?;
        Some(Self { content: fs::read(&path).ok()?, path })
    }

    fn restore(&self) -> Result<(), Fault> {
        let Self { path, content } = self;
        if fs::read(path).is_ok_and(|stored| stored == *content) {
            return Ok(());
        }
        let restored = cache::replace(path, content);
        restored.map_err(|error| Fault::said(format!("cannot write {}: {error}", path.display())))
    }
}

/// The same for one cluster, with the unchanged output of kubectl.
pub(crate) fn run_one(
    kubectl: &Kubectl,
    invocation: &Invocation,
    printer: &Printer,
) -> Result<ExitStatus, Failure> {
    let make = |invocation| Child {
        command: kubectl.child(invocation),
        input: None,
        timeout: None,
        may_say_no: false,
    };
    let result = client::runtime()?.block_on(async {
        let (events, mut receiver) = mpsc::channel(1);
        let print = async {
            while let Some(event) = receiver.recv().await {
                match event {
                    Event::Out(bytes) => printer.out_bytes(&bytes),
                    Event::Err(bytes) => printer.note_bytes(&bytes),
                    Event::End(_) => {}
                }
            }
        };
        // kubectl itself obtains the credential.
        let renewed = || ready(Ok(None));
        let run = async move { run(invocation.clone(), make, renewed, &events).await };
        tokio::select! {
            biased;
            // Dropping the future ends the child.
            () = interrupt::interrupted() => None,
            (result, ()) = async { tokio::join!(run, print) } => Some(result),
        }
    });
    Ok(match result {
        None => ExitStatus::Interrupted,
        Some(Ok(())) => ExitStatus::Success,
        Some(Err(Fault::Kubectl { code: Some(code), .. })) => ExitStatus::of_child(Some(code)),
        Some(Err(fault)) => {
            if let Some(line) = fault.line() {
                printer.note_line(&line);
            }
            ExitStatus::Failed
        }
    })
}

/// kubectl prints this for each port when it is ready.
const FORWARDING: &[u8] = b"Forwarding from ";
