//! How the image's program, the static one, is linked: with its relocations packed. A start reads all
//! of them, and the program's pages are most of an idle sidecar's memory.

use std::env;
use std::io::{self, Write};

fn main() -> io::Result<()> {
    let said = |name: &str| env::var(name).unwrap_or_default();
    let is_static = said("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    let mut out = io::stdout();
    writeln!(out, "cargo::rerun-if-changed=build.rs")?;
    // Older C libraries do not know them, which is nothing to a static program; nor do other targets' linkers.
    if is_static && said("TARGET") == "x86_64-unknown-linux-gnu" && said("PROFILE") == "release" {
        writeln!(out, "cargo::rustc-link-arg-bin=mc-sidecar=-Wl,-z,pack-relative-relocs")?;
    }
    Ok(())
}
