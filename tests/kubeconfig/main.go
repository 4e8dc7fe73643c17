// Package main prints the settings that client-go's transport uses for a context of a kubeconfig. The plugin's tests compare
// with them. It reads one request per line (JSON) and prints one answer per line, so that one process serves all cases.
//
// It is built in the module of the test bed's default Kubernetes (tests/testbed/src/programs/beside.rs), so it has the
// client-go of that kubectl.
package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http/httpproxy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

// request is one case.
type request struct {
	// Files is the list of KUBECONFIG; Explicit is --kubeconfig.
	Files    []string `json:"files"`
	Explicit string   `json:"explicit"`
	Context  string   `json:"context"`
	// Environment has the variables of the proxy.
	Environment map[string]string `json:"environment"`
	// Connect sends a request to the server, and reports its error.
	Connect bool `json:"connect"`
	// Contexts lists the contexts, and nothing else.
	Contexts bool `json:"contexts"`
}

// answer has the same fields as the plugin's (kubectl-mc/src/cluster/transport/differential.rs).
type answer struct {
	Error              string      `json:"error,omitempty"`
	Contexts           []string    `json:"contexts,omitempty"`
	Server             string      `json:"server"`
	Roots              []string    `json:"roots"`
	Insecure           bool        `json:"insecure"`
	ServerName         string      `json:"serverName"`
	Proxy              string      `json:"proxy"`
	DisableCompression bool        `json:"disableCompression"`
	Headers            []string    `json:"headers"`
	ClientCertificate  string      `json:"clientCertificate"`
	Exec               *execAnswer `json:"exec"`
	Namespace          string      `json:"namespace"`
	Connected          string      `json:"connected,omitempty"`
}

type execAnswer struct {
	Command     string   `json:"command"`
	Args        []string `json:"args"`
	Env         []string `json:"env"`
	Version     string   `json:"version"`
	Mode        string   `json:"mode"`
	ClusterInfo bool     `json:"clusterInfo"`
}

func main() {
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		result, err := answered(asked)
		if err != nil {
			result = &answer{Error: err.Error()}
		}
		if err := out.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answered(asked request) (*answer, error) {
	for _, name := range proxyVariables {
		os.Unsetenv(name)
	}
	for name, value := range asked.Environment {
		os.Setenv(name, value)
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: asked.Explicit, Precedence: asked.Files}
	// This works as in kubectl, except that nothing asks for a name and a password.
	overrides := &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults, CurrentContext: asked.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	if asked.Contexts {
		raw, err := loader.RawConfig()
		if err != nil {
			return nil, err
		}
		names := []string{}
		for name := range raw.Contexts {
			names = append(names, name)
		}
		slices.Sort(names)
		return &answer{Contexts: names}, nil
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	result := &answer{
		Server:             strings.TrimRight(base.String(), "/"),
		Insecure:           config.Insecure,
		ServerName:         config.ServerName,
		DisableCompression: config.DisableCompression,
		Namespace:          namespace,
	}
	if result.Proxy, err = proxy(config, base); err != nil {
		return nil, err
	}
	if err := security(config, result); err != nil {
		return nil, err
	}
	if config.ExecProvider != nil {
		result.Exec = execOf(config)
	}
	if result.Headers, err = headers(config, base); err != nil {
		return nil, err
	}
	if asked.Connect {
		result.Connected = connected(config, base)
	}
	return result, nil
}

// security fills in what the TLS configuration verifies and presents.
func security(config *rest.Config, result *answer) error {
	settings, err := config.TransportConfig()
	if err != nil {
		return err
	}
	if _, err := transport.New(settings); err != nil {
		return err
	}
	// transport.New has read the files into the data.
	verified, err := rest.TLSConfigFor(config)
	if err != nil || verified == nil {
		return err
	}
	if verified.RootCAs != nil {
		result.Roots = fingerprints(caData(config))
	}
	if verified.GetClientCertificate == nil || config.ExecProvider != nil && !settings.HasCertAuth() {
		return nil
	}
	certificate, err := verified.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		return err
	}
	if len(certificate.Certificate) > 0 {
		result.ClientCertificate = fingerprint(certificate.Certificate[0])
	}
	return nil
}

// execOf is the plugin of a user, if the transport runs it, which it does not if there is another credential.
func execOf(config *rest.Config) *execAnswer {
	settings, err := (&rest.Config{
		Username: config.Username, BearerToken: config.BearerToken, BearerTokenFile: config.BearerTokenFile,
		TLSClientConfig: config.TLSClientConfig,
	}).TransportConfig()
	if err != nil || settings.HasTokenAuth() || settings.HasBasicAuth() || settings.HasCertAuth() {
		return nil
	}
	plugin := config.ExecProvider
	result := &execAnswer{
		Command: plugin.Command, Args: plugin.Args, Version: plugin.APIVersion, Mode: string(plugin.InteractiveMode),
		ClusterInfo: plugin.ProvideClusterInfo, Env: []string{},
	}
	if result.Args == nil {
		result.Args = []string{}
	}
	for _, variable := range plugin.Env {
		result.Env = append(result.Env, variable.Name+"="+variable.Value)
	}
	return result
}

// headers are the headers of a request that say who sends it. The plugin of a user does not run.
func headers(config *rest.Config, base *url.URL) ([]string, error) {
	without := *config
	without.ExecProvider = nil
	captured := &capture{}
	sender, err := rest.HTTPWrappersForConfig(&without, captured)
	if err != nil {
		return nil, err
	}
	// This is done by a client, which sends the name and the password from the server's URL.
	if _, err := (&http.Client{Transport: sender}).Get(base.String()); err != nil {
		return nil, err
	}
	lines := []string{}
	for name, values := range captured.header {
		if name != "Authorization" && !strings.HasPrefix(name, "Impersonate-") {
			continue
		}
		for _, value := range values {
			// net/http's transport checks each request in this way.
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("net/http: invalid header field value for %q", name)
			}
			lines = append(lines, strings.ToLower(name)+": "+value)
		}
	}
	slices.Sort(lines)
	return lines, nil
}

type capture struct{ header http.Header }

func (c *capture) RoundTrip(asked *http.Request) (*http.Response, error) {
	c.header = asked.Header
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: asked}, nil
}

// proxy is the proxy for the server. Go reads the environment once in a process, so its rules are used directly.
func proxy(config *rest.Config, base *url.URL) (string, error) {
	var found *url.URL
	var err error
	if config.Proxy != nil {
		found, err = config.Proxy(&http.Request{URL: base})
	} else {
		found, err = httpproxy.FromEnvironment().ProxyFunc()(base)
	}
	if found == nil || err != nil {
		return "", err
	}
	return found.String(), nil
}

// connected sends a request and reports the result.
func connected(config *rest.Config, base *url.URL) string {
	direct := *config
	direct.Timeout = 10 * time.Second
	client, err := rest.HTTPClientFor(&direct)
	if err != nil {
		return "error: " + err.Error()
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(strings.TrimRight(base.String(), "/") + "/version")
	if err != nil {
		return "error: " + err.Error()
	}
	defer response.Body.Close()
	return response.Status
}

func caData(config *rest.Config) []byte {
	if len(config.CAData) > 0 {
		return config.CAData
	}
	data, _ := os.ReadFile(config.CAFile)
	return data
}

func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

var proxyVariables = []string{
	"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy",
	"REQUEST_METHOD",
}
