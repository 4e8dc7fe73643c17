//! Defines the command line of `testbed`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use testbed::plan::Wanted;
use testbed::programs::DEFAULT_VERSION;

/// A real Kubernetes for the tests: a host cluster, members and nodes
#[derive(Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a command in a new bed and take the bed down when it ends
    Run {
        #[command(flatten)]
        bed: Bed,
        /// With TESTBED, KUBECONFIG (the host's administrator) and the built kubectl in its PATH
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Start a bed that stays, and print how to use it
    Up {
        #[command(flatten)]
        bed: Bed,
    },
    /// Take down one bed, or all that nobody uses
    Down { id: Option<String> },
    /// Build the programs of Kubernetes that are missing
    Build {
        #[arg(default_value = DEFAULT_VERSION)]
        versions: Vec<String>,
        /// Whatever any test uses, in every version that is here
        #[arg(long, conflicts_with = "versions")]
        everything: bool,
    },
    /// Stop a cluster's kube-apiserver, in the bed that TESTBED names
    Stop { cluster: String },
    /// Stop a cluster's kube-apiserver and start it again, in the bed that TESTBED names
    Restart { cluster: String },
    /// Wait until a bed's owner is gone and take the bed down
    #[command(hide = true)]
    Reap { dir: PathBuf },
}

#[derive(Args)]
pub(crate) struct Bed {
    /// Members: m1, m2 …
    #[arg(long, default_value_t = 2)]
    members: usize,
    /// A further member, or another version of one: m2=v1.30.0
    #[arg(long, value_name = "NAME[=VERSION]")]
    member: Vec<String>,
    /// A further cluster that is not registered: for tests that register it, or make it a host
    #[arg(long, value_name = "NAME[=VERSION]")]
    spare: Vec<String>,
    /// Give this cluster a node
    #[arg(long, value_name = "CLUSTER")]
    node: Vec<String>,
    /// Let Karmada's own aggregated API server serve Clusters on this cluster (built the first time, which takes minutes)
    #[arg(long, value_name = "CLUSTER")]
    karmada: Vec<String>,
    /// Start this mc-sidecar before the host and register the members with it
    #[arg(long, value_name = "PATH")]
    sidecar: Option<PathBuf>,
    /// Let the nodes of spares run this image (`make image ARCHIVE=PATH`), not one packed of --sidecar and its libraries
    #[arg(long, value_name = "PATH")]
    sidecar_image: Option<PathBuf>,
    /// Let the kube-apiservers and the sidecar export traces that an administrator samples, to a collector of the tests
    #[arg(long)]
    tracing: bool,
    /// Use 127.0.0.1 also where a network namespace could be had; then there are no nodes
    #[arg(long)]
    loopback: bool,
}

impl Bed {
    pub(crate) fn wanted(self) -> Wanted {
        let Self { members, member, spare, node, karmada, sidecar, sidecar_image, tracing, loopback } = self;
        Wanted {
            members,
            member,
            spares: spare,
            nodes: node,
            karmada,
            sidecar,
            sidecar_image,
            loopback,
            tracing,
        }
    }
}
