"""A tool that takes only the scheme, the host and the port of a kubeconfig's server, and drops its path.

Prints the response to a GET of the path in its argument.
"""
import http.client
import ssl
import sys
from urllib.parse import urlsplit

from kubernetes import client, config

config.load_kube_config()
settings = client.Configuration.get_default_copy()
server = urlsplit(settings.host)
context = ssl.create_default_context(cafile=settings.ssl_ca_cert)


class Connection(http.client.HTTPSConnection):
    """HTTPS with the kubeconfig's tls-server-name."""

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self.sock = context.wrap_socket(self.sock, server_hostname=settings.tls_server_name or self.host)


if settings.cert_file:
    context.load_cert_chain(settings.cert_file, settings.key_file)
headers = {}
if token := settings.get_api_key_with_prefix("authorization"):
    headers["Authorization"] = token
connection = Connection(server.hostname, server.port, context=context)
connection.request("GET", sys.argv[1], headers=headers)
print(connection.getresponse().read().decode())
