//! Builds the images for nodes without a registry: each is one layer of static programs, as a
//! docker archive.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::programs;

/// Upstream's program for tests of pods, with a shell as in upstream's image. It also runs as a pod's sandbox
/// (`/agnhost pause`).
pub(crate) const AGNHOST: &str = "testbed.local/agnhost:1";
/// A shell and its tools.
const BUSYBOX: &str = "testbed.local/busybox:1";
/// The sidecar's own image, on the nodes of spare clusters.
pub const SIDECAR: &str = "testbed.local/mc-sidecar:1";
/// karmada-agent, on nodes where a test asks for it.
const KARMADA_AGENT: &str = "testbed.local/karmada-agent:1";
/// Where Debian's busybox-static puts it.
pub(crate) const BUSYBOX_PROGRAM: &str = "/bin/busybox";

/// The names of these images in upstream's own tests, where `KUBE_TEST_REPO_LIST` says `testbed.local` for
/// registries.
const AGNHOST_UPSTREAM: &str = "testbed.local/agnhost:2.63.0";
const PAUSE_UPSTREAM: &str = "testbed.local/pause:3.10.2";
const BUSYBOX_UPSTREAM: &str = "testbed.local/busybox:1.37.0-1";

/// The archives of all images. They are built when they are missing or older than their program.
pub(crate) fn archives() -> Result<Vec<PathBuf>> {
    let (folder, _lock) = folder()?;
    let agnhost = programs::path(programs::DEFAULT_VERSION, "agnhost");
    let mut archives = Vec::new();
    for (names, program) in [
        (&[AGNHOST, AGNHOST_UPSTREAM, PAUSE_UPSTREAM] as &[&str], Some(agnhost.as_path())),
        (&[BUSYBOX, BUSYBOX_UPSTREAM], None),
    ] {
        // A different recipe gets a different file, next to the files of other versions of this
        // program.
        let file = names[1..].join("+").replace("testbed.local/", "").replace(':', "-");
        let archive = folder.join(format!("{file}.tar"));
        if !is_newer(&archive, program.unwrap_or_else(|| Path::new(BUSYBOX_PROGRAM))) {
            let work = folder.join(format!("{file}.work"));
            make(names, program, &work, &archive).with_context(|| format!("image {}", names[0]))?;
        }
        archives.push(archive);
    }
    Ok(archives)
}

/// The archive of an image for trying a changed sidecar. It differs from the Dockerfile's image in
/// two ways: the program may be a debug build, so it is stripped, and the image also contains its
/// shared libraries, since a static program would need a full rebuild. `tests/e2e.sh` uses the
/// image of the Dockerfile.
pub(crate) fn sidecar(program: &Path) -> Result<PathBuf> {
    let (folder, _lock) = folder()?;
    let archive = folder.join("mc-sidecar.tar");
    let made_of = folder.join("mc-sidecar.of");
    let path = program.display().to_string();
    let same = fs::read_to_string(&made_of).is_ok_and(|of| of == path);
    if !same || !is_newer(&archive, program) {
        let work = folder.join("mc-sidecar.work");
        make_sidecar(program, &work, &archive).context("image of mc-sidecar")?;
        fs::write(&made_of, path)?;
    }
    Ok(archive)
}

/// The image of karmada-agent, and its archive. The program is where Karmada's own image has it.
pub(crate) fn karmada_agent() -> Result<(&'static str, PathBuf)> {
    let (folder, _lock) = folder()?;
    let (archive, program) = (folder.join("karmada-agent.tar"), programs::karmada_agent());
    if !is_newer(&archive, &program) {
        let work = folder.join("karmada-agent.work");
        let _ = fs::remove_dir_all(&work);
        let root = work.join("root");
        fs::create_dir_all(root.join("bin"))?;
        fs::copy(&program, root.join("bin/karmada-agent"))?;
        pack(&[KARMADA_AGENT], &root, &json!({}), &work, &archive).context("image of karmada-agent")?;
    }
    Ok((KARMADA_AGENT, archive))
}

/// The folder where archives are built, and a lock on it.
fn folder() -> Result<(PathBuf, fs::File)> {
    let folder = programs::target().join("kubernetes/images");
    fs::create_dir_all(&folder)?;
    let lock = fs::File::create(folder.join(".lock"))?;
    lock.lock()?;
    Ok((folder, lock))
}

fn make_sidecar(program: &Path, work: &Path, archive: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(work);
    let root = work.join("root");
    fs::create_dir_all(root.join("etc/ssl/certs"))?;
    run(Command::new("strip").arg("-o").arg(root.join("mc-sidecar")).arg(program))?;
    for library in
        run(Command::new("ldd").arg(program))?.split_whitespace().filter(|word| word.starts_with('/'))
    {
        let path = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(&root))?;
        fs::copy(library, path)?;
    }
    let roots = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if roots.is_file() {
        fs::copy(roots, root.join("etc/ssl/certs/ca-certificates.crt"))?;
    }
    let process = json!({"Entrypoint": ["/mc-sidecar"], "User": "65532:65532"});
    pack(&[SIDECAR], &root, &process, work, archive)
}

fn is_newer(archive: &Path, program: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    matches!((time(archive), time(program)), (Ok(archive), Ok(program)) if archive > program)
}

/// An image of busybox under all its names, and optionally with a program as its entrypoint.
fn make(names: &[&str], program: Option<&Path>, work: &Path, archive: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(work);
    let root = work.join("root");
    for folder in ["bin", "etc", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n")?;
    // Without this file a static glibc looks for modules to load.
    fs::write(
        root.join("etc/nsswitch.conf"),
        "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n",
    )?;
    fs::copy(BUSYBOX_PROGRAM, root.join("bin/busybox"))?;
    for applet in
        run(Command::new(BUSYBOX_PROGRAM).arg("--list"))?.lines().filter(|&applet| applet != "busybox")
    {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    if let Some(program) = program {
        fs::copy(program, root.join("agnhost"))?;
    }
    run(Command::new("chmod").arg("1777").arg(root.join("tmp")))?;
    let process = json!({
        "Env": ["PATH=/bin"],
        "Entrypoint": if program.is_some() { &["/agnhost"] as &[&str] } else { &[] },
        "Cmd": if program.is_some() { ["pause"] } else { ["sh"] },
    });
    pack(names, &root, &process, work, archive)
}

/// An image of a folder.
fn pack(names: &[&str], root: &Path, process: &Value, work: &Path, archive: &Path) -> Result<()> {
    let layer = work.join("layer.tar");
    run(Command::new("tar")
        .args(["--owner=0", "--group=0", "-cf"])
        .arg(&layer)
        .arg("-C")
        .arg(root)
        .arg("."))?;
    let digest = run(Command::new("sha256sum").arg(&layer))?;
    let digest = digest.split(' ').next().unwrap_or_default();
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": process,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    fs::write(work.join("config.json"), config.to_string())?;
    let manifest = json!([{"Config": "config.json", "RepoTags": names, "Layers": ["layer.tar"]}]);
    fs::write(work.join("manifest.json"), manifest.to_string())?;
    let new = work.join("image.tar");
    let parts = ["manifest.json", "config.json", "layer.tar"];
    run(Command::new("tar").arg("-cf").arg(&new).arg("-C").arg(work).args(parts))?;
    fs::rename(new, archive)?;
    Ok(fs::remove_dir_all(work)?)
}

/// Go's name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start: {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
