"""Runs one action with the Python client: client.py get|watch|logs|exec|attach|port-forward NAMESPACE …

tests/e2e/requests/slow/clients.rs runs it and defines the arguments. The kubeconfig is $KUBECONFIG.
"""

import sys

from kubernetes import client, config, watch
from kubernetes.stream import portforward, stream


def get(namespace):
    for pod in api.list_namespaced_pod(namespace).items:
        print(pod.metadata.name)


def follow(namespace):
    for event in watch.Watch().stream(api.list_namespaced_config_map, namespace):
        print(event["type"], event["object"].metadata.name, flush=True)


def logs(namespace, pod):
    sys.stdout.write(api.read_namespaced_pod_log(pod, namespace))


def execute(namespace, pod, *command):
    return converse(api.connect_get_namespaced_pod_exec, namespace, pod, command=list(command))


def attach(namespace, pod):
    return converse(api.connect_get_namespaced_pod_attach, namespace, pod)


def converse(subresource, namespace, pod, **options):
    session = stream(
        subresource, pod, namespace, stdin=True, stdout=True, stderr=True, tty=False,
        binary=True, _preload_content=False, **options,
    )  # fmt: skip
    while portion := sys.stdin.buffer.read(32 * 1024):
        session.write_stdin(portion)
    while session.is_open():
        session.update(timeout=60)
        for channel, output in ((1, sys.stdout.buffer), (2, sys.stderr.buffer)):
            if session.peek_channel(channel):
                output.write(session.read_channel(channel))
                output.flush()
    return session.returncode


def forward(namespace, pod, port):
    forwarded = portforward(api.connect_get_namespaced_pod_portforward, pod, namespace, ports=port)
    connection = forwarded.socket(int(port))
    connection.sendall(sys.stdin.buffer.read())
    while portion := connection.recv(64 * 1024):
        sys.stdout.buffer.write(portion)
    if error := forwarded.error(int(port)):
        sys.exit(error)


config.load_kube_config()
api = client.CoreV1Api()
verbs = {
    "get": get, "watch": follow, "logs": logs, "exec": execute, "attach": attach, "port-forward": forward,
}  # fmt: skip
sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
