#!/usr/bin/env python3
"""Measures `get` of a large list over a link of 10 Mbit/s and 50 ms, and without one, alternating between several programs.

    target/debug/testbed run --members 1 --sidecar target/debug/mc-sidecar -- \
        tests/bench/slow_link.py NAME=PROGRAM NAME=PROGRAM ...

Needs root on Linux. The link is a pair of virtual interfaces, both limited by a token bucket filter (tc-tbf(8)),
and a relay behind it that holds data for 25 ms in each direction. The ten clusters are one member under ten names.
"""

import asyncio
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

DELAY = 0.025
RATE = "10mbit"
ROUNDS = int(os.environ.get("ROUNDS", "5"))
PODS = 500
BED = json.loads((pathlib.Path(os.environ["TESTBED"]) / "bed.json").read_text())


def run(*words, **more):
    return subprocess.run(words, check=True, text=True, capture_output=True, **more).stdout


def kubectl(cluster, *words, **more):
    return run("kubectl", "--kubeconfig", cluster["kubeconfig"], *words, **more)


def pod(number):
    variables = [{"name": f"SETTING_{at}", "value": f"value-{at}-{number * 7919 % 1000}"} for at in range(12)]
    container = {"name": "main", "image": "registry.example/shop/web:1.2.3", "env": variables}
    container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    labels = {"app": f"web-{number % 20}", "team": f"team-{number % 7}"}
    metadata = {"name": f"web-{number % 20}-{number * 7919:x}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def prepare():
    """Creates pods of about 4 KB on m1, and registers it under nine more names on the host."""
    member, host = BED["members"]["m1"], BED["host"]
    kubectl(member, "create", "namespace", "slow")
    kubectl(member, "wait", "--for=create", "serviceaccount/default", "-n", "slow", "--timeout=60s")
    pods = {"apiVersion": "v1", "kind": "List", "items": [pod(number) for number in range(PODS)]}
    kubectl(member, "create", "-n", "slow", "-f", "-", input=json.dumps(pods))
    secret = json.loads(kubectl(host, "get", "secret", "m1.member", "-n", "kubectl-mc-system", "-o", "json"))
    for number in range(2, 11):
        name = f"m{number}"
        metadata = {"name": f"{name}.member", "namespace": "kubectl-mc-system"}
        metadata["labels"] = secret["metadata"].get("labels", {})
        copy = {**secret, "metadata": metadata}
        cluster = {"apiVersion": "fleet.kubectl-mc.dev/v1alpha1", "kind": "MemberCluster", "spec": {}}
        cluster["metadata"] = {"name": name}
        objects = {"apiVersion": "v1", "kind": "List", "items": [copy, cluster]}
        kubectl(host, "apply", "-f", "-", input=json.dumps(objects))
    kubectl(host, "wait", "membercluster", "--all", "--for=condition=Ready", "--timeout=120s")


class Link:
    """A network namespace behind the link."""

    def __init__(self):
        self.name = f"slow-{os.getpid()}"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", "slow0", "type", "veth", "peer", "name", "slow1", "netns", self.name)
        run("ip", "address", "add", "10.99.0.1/24", "dev", "slow0")
        run("ip", "link", "set", "slow0", "up")
        for words in (["address", "add", "10.99.0.2/24", "dev", "slow1"], ["link", "set", "slow1", "up"]):
            run(*self.within(), "ip", *words)
        shape = ["root", "tbf", "rate", RATE, "burst", "16kb", "latency", "400ms"]
        run("tc", "qdisc", "add", "dev", "slow0", *shape)
        run(*self.within(), "tc", "qdisc", "add", "dev", "slow1", *shape)

    def within(self):
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    def received(self):
        """The bytes that the client's side has received."""
        shown = json.loads(run(*self.within(), "ip", "-json", "-statistics", "link", "show", "slow1"))
        return shown[0]["stats64"]["rx"]["bytes"]

    def remove(self):
        subprocess.run(["ip", "link", "del", "slow0"], check=False)
        subprocess.run(["ip", "netns", "del", self.name], check=False)


async def carry(reader, writer):
    """Writes what is read after the delay."""
    clock = asyncio.get_running_loop().time
    held = asyncio.Queue(maxsize=256)

    async def read():
        while data := await reader.read(16384):
            await held.put((clock() + DELAY, data))
        await held.put((clock() + DELAY, b""))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, data = await held.get()
            await asyncio.sleep(max(0, due - clock()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        reading.cancel()
        writer.close()


async def relay(to):
    host, port = to.removeprefix("https://").rsplit(":", 1)

    async def accepted(reader, writer):
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(carry(reader, back), carry(there, writer))

    return await asyncio.start_server(accepted, "10.99.0.1", 0)


def kubeconfig(folder, server, name):
    config = json.loads(kubectl(BED["host"], "config", "view", "--raw", "--flatten", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    cluster["tls-server-name"] = cluster["server"].removeprefix("https://").rsplit(":", 1)[0]
    cluster["server"] = server
    path = pathlib.Path(folder) / name
    path.write_text(json.dumps(config))
    return str(path)


async def measured(words, config, home):
    """Seconds of the clock and of the CPU."""
    clock = asyncio.get_running_loop().time
    environment = {**os.environ, "KUBECONFIG": config, "HOME": home, "KUBECTL_MC_DIRECT": "only"}
    begin, before = clock(), resource.getrusage(resource.RUSAGE_CHILDREN)
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=null)
    code = await process.wait()
    if code != 0:
        sys.exit(f"{words}: exit code {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return clock() - begin, cpu


async def main(programs):
    prepare()
    link = Link()
    try:
        server = await relay(BED["host"]["server"])
        address = server.sockets[0].getsockname()
        with tempfile.TemporaryDirectory() as folder:
            slow = kubeconfig(folder, f"https://{address[0]}:{address[1]}", "slow")
            here = kubeconfig(folder, BED["host"]["server"], "here")
            ten = ",".join(f"m{number}" for number in range(1, 11))
            for form in (["-o", "json"], []):
                for place, config, within in (("link", slow, link.within()), ("no link", here, [])):
                    for count, clusters in ((1, "m1"), (10, ten)):
                        taken = {name: [] for name in programs}
                        rounds = ROUNDS * (1 if within else 4)
                        for at in range(rounds + 1):
                            for name, program in programs.items():
                                words = [*within, program, "-C", clusters, "get", "pods", "-n", "slow", *form]
                                received = link.received()
                                took = await measured(words, config, folder)
                                # The first round fills the caches.
                                if at:
                                    taken[name].append((*took, link.received() - received))
                        for name, all in taken.items():
                            wall, cpu, received = (statistics.median(column) for column in zip(*all))
                            print(
                                f"{place:8} {count:2} clusters  get pods {' '.join(form):8} {name:10}"
                                f" {wall * 1000:7.0f} ms {cpu * 1000:6.0f} ms CPU {received / 1000:8.0f} kB",
                                flush=True,
                            )
        server.close()
    finally:
        link.remove()


if __name__ == "__main__":
    asyncio.run(main(dict(word.split("=", 1) for word in sys.argv[1:])))
