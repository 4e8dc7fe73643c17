#!/usr/bin/env python3
"""Writes the SBOM of a program for a platform, as CycloneDX and in the form that `cargo auditable` embeds. The sidecar's SBOM
covers its image.

    sbom.py PACKAGE TARGET CYCLONEDX [AUDITABLE]

Reads `cargo tree`, which resolves features as the build of this one package does. Tools that read `cargo metadata`
(cargo-cyclonedx, cargo-auditable) include crates that only other packages of the workspace enable.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {"sidecar": "mc-sidecar", "kubectl-mc": "kubectl-mc"}


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def tree(package, target, edges):
    """All packages of these edges, by (name, version), each with its dependencies. The root is the first."""
    lines = run(
        *["cargo", "tree", "--locked", "--package", package, "--target", target, "--edges", edges],
        *["--prefix", "depth", "--format", "\t{p}\t{l}\t{r}"],
    )
    packages, path = {}, []
    for line in lines.splitlines():
        depth, package, licence, repository = line.split("\t")
        name, version, *more = package.split(" ")
        key = (name, version.removeprefix("v"))
        known = packages.setdefault(key, {"depends": set(), "licence": licence, "local": False, "repository": ""})
        known["repository"] = repository.removesuffix(" (*)")
        known["local"] |= any(word.startswith("(/") for word in more)
        path[int(depth) :] = [key]
        if len(path) > 1:
            packages[path[-2]]["depends"].add(key)
    return packages


def locked():
    """The registry and the checksum of each crate outside this workspace."""
    lock = (ROOT / "Cargo.lock").read_text()
    entry = r'name = "(.+)"\nversion = "(.+)"\nsource = "registry\+.+/(.+)-index"\nchecksum = "(.+)"'
    return {(name, version): kept for name, version, *kept in re.findall(entry, lock)}


def crates(package, target):
    linked = tree(package, target, "normal,no-proc-macro")
    packages = tree(package, target, "normal,build")
    lock = locked()
    for key, package in packages.items():
        package["linked"] = key in linked
        package["registry"], package["checksum"] = lock.get(key, ("local", None))
    return packages


def component(key, package):
    name, version = key
    purl = f"pkg:cargo/{name}@{quote(version)}"
    if package["local"]:
        purl += "?vcs_url=" + quote(f"git+{package['repository']}", safe="")
    made = {"type": "library", "bom-ref": f"{name}@{version}", "name": name, "version": version, "purl": purl}
    # Macros, build scripts and their dependencies ran at build time and are not in the program.
    made["scope"] = "required" if package["linked"] else "excluded"
    if package["checksum"]:
        made["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
    if package["licence"]:
        made["licenses"] = [{"expression": package["licence"].replace("/", " OR ")}]
    if package["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return made


def packaged(kind, file, what):
    """The package of the installed Debian (or Ubuntu) that contains a file."""
    fields = "${Version}\t${Architecture}\t${source:Package}\n"
    try:
        system = dict(re.findall(r'^(ID|VERSION_ID)="?(.+?)"?$', Path("/etc/os-release").read_text(), re.M))
        name = run("dpkg-query", "--search", file).split(":")[0]
        version, architecture, source = run("dpkg-query", "--show", "--showformat", fields, name).splitlines()[0].split("\t")
    except (OSError, subprocess.CalledProcessError):
        print(f"sbom: no Debian package has {file}: {what} is left out", file=sys.stderr)
        return []
    distribution = f"{system['ID']}-{system.get('VERSION_ID', 'sid')}"
    purl = f"pkg:deb/{system['ID']}/{name}@{quote(version)}?arch={architecture}&distro={distribution}&upstream={source}"
    made = {"type": kind, "bom-ref": name, "name": name, "version": version, "purl": purl}
    return [made | {"scope": "required", "description": what}]


def beside_crates(target):
    """Components without a crate: Rust's own library, the C libraries in a static program, the public CA certificates."""
    version = re.search(r"^release: (.+)$", run("rustc", "--version", "--verbose"), re.M)[1]
    licence = [{"expression": "MIT OR Apache-2.0"}]
    std = {"type": "library", "bom-ref": "rust-std", "name": "rust-std", "version": version, "purl": f"pkg:generic/rust-std@{version}"}
    found = [std | {"scope": "required", "licenses": licence}]
    if not target.endswith("-linux-gnu"):
        # For musl, Rust's library contains the C library and the unwinder. On macOS and Windows they are the system's. The
        # plugin has no roots.
        return found
    machine = target.split("-")[0]
    compiler = "gcc" if machine == os.uname().machine else f"{machine}-linux-gnu-gcc"
    for library, what in [("libc.a", "the C library"), ("libgcc_eh.a", "the library that unwinds stacks")]:
        file = run(compiler, f"-print-file-name={library}").strip()
        found += packaged("library", os.path.realpath(file), what)
    roots = os.environ.get("ROOTS")
    mozilla = Path("/usr/share/ca-certificates/mozilla")
    if not roots and mozilla.is_dir():
        found += packaged("data", str(mozilla), "the roots of the public authorities")
    return found


def cyclonedx(name, target, packages):
    root, *others = packages
    program = component(root, packages[root])
    program |= {"type": "application", "name": name}
    del program["scope"]
    beside = beside_crates(target)
    metadata = {"component": program, "properties": [{"name": "rust:target", "value": target}]}
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        metadata["timestamp"] = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    depends = []
    for (name, version), package in sorted(packages.items()):
        names = [f"{name}@{version}" for name, version in sorted(package["depends"])]
        if (name, version) == root:
            names += [made["bom-ref"] for made in beside]
        depends.append({"ref": f"{name}@{version}", "dependsOn": names})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": [component(key, packages[key]) for key in sorted(others)] + beside,
        "dependencies": depends + [{"ref": made["bom-ref"]} for made in beside],
    }


def auditable(packages):
    root = next(iter(packages))
    index = {key: place for place, key in enumerate(sorted(packages))}
    made = []
    for key in sorted(packages):
        package = packages[key]
        entry = {"name": key[0], "version": key[1], "source": package["registry"]}
        if not package["linked"]:
            entry["kind"] = "build"
        if package["depends"]:
            entry["dependencies"] = sorted(index[other] for other in package["depends"])
        if key == root:
            entry["root"] = True
        made.append(entry)
    return {"packages": made, "format": 1}


def main():
    package, target, out, *embedded = sys.argv[1:]
    packages = crates(package, target)
    Path(out).write_text(json.dumps(cyclonedx(PROGRAMS[package], target, packages), indent=1) + "\n")
    for path in embedded:
        text = json.dumps(auditable(packages), separators=(",", ":"))
        Path(path).write_bytes(zlib.compress(text.encode(), 9))


main()
