// Runs one action with the Node.js client: client.mjs get|watch|logs|exec|attach|port-forward NAMESPACE …
// tests/e2e/requests/slow/clients.rs runs it and defines the arguments. The kubeconfig is $KUBECONFIG. Its imports
// are in a separate folder, which is the first argument.
import { createRequire } from 'node:module';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';

const [folder, verb, namespace, ...words] = process.argv.slice(2);
const found = createRequire(`${folder}/package.json`).resolve('@kubernetes/client-node');
const k8s = await import(pathToFileURL(found));

const config = new k8s.KubeConfig();
config.loadFromDefault();

const closed = (socket) => new Promise((resolve) => socket.on('close', resolve));

async function get() {
  const pods = await config.makeApiClient(k8s.CoreV1Api).listNamespacedPod({ namespace });
  for (const pod of pods.items) console.log(pod.metadata.name);
}

async function watch() {
  await new Promise((resolve, reject) => {
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const told = (type, object) => console.log(type, object.metadata.name);
    new k8s.Watch(config).watch(path, {}, told, (error) => (error ? reject(error) : resolve()));
  });
}

async function logs(pod) {
  await new k8s.Log(config).log(namespace, pod, 'main', process.stdout, { follow: false });
}

async function exec(pod, ...command) {
  let status;
  const { stdin, stdout, stderr } = process;
  const socket = await new k8s.Exec(config).exec(
    namespace, pod, 'main', command, stdout, stderr, stdin, false, (said) => { status = said; },
  );
  await closed(socket);
  const cause = status.details?.causes?.find((cause) => cause.reason === 'ExitCode');
  process.exitCode = status.status === 'Success' ? 0 : Number(cause.message);
}

async function attach(pod) {
  const { stdin, stdout, stderr } = process;
  await closed(await new k8s.Attach(config).attach(namespace, pod, 'main', stdout, stderr, stdin, false));
}

async function portForward(pod, port) {
  const { stdin, stdout, stderr } = process;
  // Ending its input would end the whole connection before the answer.
  const request = stdin.pipe(new PassThrough(), { end: false });
  const forward = new k8s.PortForward(config);
  await closed(await forward.portForward(namespace, pod, [Number(port)], stdout, stderr, request));
}

const verbs = { get, watch, logs, exec, attach, 'port-forward': portForward };
await verbs[verb](...words);
