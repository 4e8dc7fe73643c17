// Package main writes how a kube-apiserver interprets requests. The sidecar's tests compare with it:
//
//	requests: method, target, verb, group/resource/subresource, name, and whether the request is long-running
//	queries:  a query and its pairs as Go decodes them
//
// It runs upstream's code, in the module of the test bed's newest Kubernetes (see generate.sh).
package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
	"k8s.io/klog/v2"
)

func main() {
	upstream := flag.String("kubernetes", "", "folder of the module k8s.io/kubernetes")
	flag.Parse()
	// The resolver logs every query that it cannot read.
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	switch flag.Arg(0) {
	case "requests":
		longRunning := longRunningCheck(*upstream)
		for _, line := range requests() {
			fmt.Fprintln(out, judge(longRunning, line.method, line.target))
		}
	case "queries":
		for _, query := range queries() {
			// An error is dropped, and so is the part that it is about, as in net/http.
			values, _ := url.ParseQuery(query)
			fmt.Fprintf(out, "%s\t%s\n", query, values.Encode())
		}
	default:
		fatal("which table: requests or queries?")
	}
}

// judge resolves one request like the first filters of a kube-apiserver.
func judge(longRunning request.LongRunningRequestCheck, method, target string) string {
	row := func(words ...string) string { return strings.Join(append([]string{method, target}, words...), "\t") }
	address, err := url.ParseRequestURI(target)
	if err != nil {
		return row("", "", "", "malformed")
	}
	req := &http.Request{Method: method, URL: address, Header: http.Header{}}
	resolver := &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := resolver.NewRequestInfo(req)
	if err != nil {
		return row("", "", "", "unresolved")
	}
	resource := ""
	if info.IsResourceRequest {
		resource = strings.Join([]string{info.APIGroup, info.Resource, info.Subresource}, "/")
	}
	length := "short"
	if longRunning(req, info) {
		length = "long"
	}
	return row(info.Verb, url.QueryEscape(resource), url.QueryEscape(info.Name), length)
}

// longRunningCheck is the check of kube-apiserver, with the verbs and subresources from its source. Importing the
// package that contains them would build all of kube-apiserver.
func longRunningCheck(upstream string) request.LongRunningRequestCheck {
	path := filepath.Join(upstream, "pkg/controlplane/apiserver/config.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		fatal(err)
	}
	var found []sets.String
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !isCallOf(call, "filters", "BasicLongRunningRequestCheck") {
			return true
		}
		for _, argument := range call.Args {
			found = append(found, literalSet(argument))
		}
		return false
	})
	if len(found) != 2 {
		fatal("no single call of filters.BasicLongRunningRequestCheck in ", path)
	}
	return filters.BasicLongRunningRequestCheck(found[0], found[1])
}

// literalSet evaluates sets.NewString("a", "b").
func literalSet(expression ast.Expr) sets.String {
	call, ok := expression.(*ast.CallExpr)
	if !ok || !isCallOf(call, "sets", "NewString") {
		fatal("not a call of sets.NewString")
	}
	set := sets.NewString()
	for _, argument := range call.Args {
		literal, ok := argument.(*ast.BasicLit)
		if !ok {
			fatal("not a literal string")
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			fatal(err)
		}
		set.Insert(text)
	}
	return set
}

func isCallOf(call *ast.CallExpr, pkg, function string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != function {
		return false
	}
	name, ok := selector.X.(*ast.Ident)
	return ok && name.Name == pkg
}

type line struct{ method, target string }

// requests is every path with every method, the paths of collections with every query, and paths and queries that are
// put together at random, the same ones in each run.
func requests() []line {
	var lines []line
	seen := map[line]bool{}
	add := func(method, path, query string) {
		target := path
		if query != "" {
			target += "?" + query
		}
		if entry := (line{method, target}); !seen[entry] {
			seen[entry] = true
			lines = append(lines, entry)
		}
	}
	for _, path := range paths {
		for _, method := range methods {
			add(method, path, "")
		}
		add("POST", path, "watch=true")
	}
	for _, query := range queries() {
		for _, path := range []string{"/api/v1/pods", ourClusters} {
			add("GET", path, query)
		}
	}
	for _, query := range []string{"watch=1", "follow=true", "watch=1&fieldSelector=metadata.name%3Dp", "limit=x&watch=1"} {
		for _, path := range paths {
			add("GET", path, query)
		}
		add("HEAD", "/api/v1/pods", query)
		add("HEAD", ourClusters, query)
	}
	random := rand.New(rand.NewSource(1))
	for range 1000 {
		path := prefixes[random.Intn(len(prefixes))]
		for range random.Intn(8) {
			path += "/" + segments[random.Intn(len(segments))]
		}
		method := "GET"
		if random.Intn(4) == 0 {
			method = methods[random.Intn(len(methods))]
		}
		add(method, path, randomQuery(random))
	}
	return lines
}

func queries() []string {
	all := append([]string{}, fixedQueries...)
	random := rand.New(rand.NewSource(2))
	for range 400 {
		if query := randomQuery(random); query != "" {
			all = append(all, query)
		}
	}
	return all
}

func randomQuery(random *rand.Rand) string {
	var query strings.Builder
	for range random.Intn(7) {
		query.WriteString(fragments[random.Intn(len(fragments))])
	}
	return query.String()
}

const ourClusters = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters"

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

var paths = []string{
	"/", "//", "/api", "/api/", "/api/v1", "/api/v1/", "/api//v1", "//api/v1/pods", "/apis", "/apis/apps", "/apis/apps/v1",
	"/apis/apps/v1/", "/version", "/healthz", "/livez/ping", "/readyz", "/metrics", "/openapi/v3/apis/apps/v1", "/logs/a",
	"/logs", "/.well-known/openid-configuration", "/API/v1/pods", "/apix/v1/pods", "/apis/v1/pods",
	"/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "//debug/pprof/profile", "/debug/pprof%2Fprofile",
	"/debug//pprof/profile", "/debug/api_priority_and_fairness/dump_queues", "/debug/flags/v",
	"/api/v1/pods", "/api/v1/pods/", "/api/v1/pods//", "/api/v1//pods", "/api/v1/pods/p", "/api/v1/pods/p/log",
	"/api/v1/nodes", "/api/v1/nodes/n", "/api/v1/nodes/n/proxy", "/api/v1/nodes/n/proxy/", "/api/v1/nodes/n/proxy/logs/a",
	"/api/v1/nodes/n/status", "/api/v1/nodes/proxy", "/api/v1/namespaces", "/api/v1/namespaces/", "/api/v1/namespaces/x",
	"/api/v1/namespaces/x/", "/api/v1/namespaces/x/status", "/api/v1/namespaces/x/finalize", "/api/v1/namespaces/x/statuses",
	"/api/v1/namespaces/x/status/log", "/api/v1/namespaces/x/finalize/exec", "/api/v1/namespaces/status",
	"/api/v1/namespaces/watch", "/api/v1/namespaces/proxy", "/api/v1/namespaces/log", "/api/v1/namespaces/x/log",
	"/api/v1/namespaces/x/exec", "/api/v1/namespaces/x/proxy", "/api/v1/namespaces//pods", "/api/v1/namespaces//pods/p/log",
	"/api/v1/namespaces/x/pods", "/api/v1/namespaces/x/pods/", "/api/v1/namespaces/x//pods", "/api/v1/namespaces/x/pods/p",
	"/api/v1/namespaces/x/pods/p/", "/api/v1/namespaces/x/pods/p/log", "/api/v1/namespaces/x/pods/p/log/",
	"/api/v1/namespaces/x/pods/p//log", "/api/v1/namespaces/x/pods//log", "/api/v1/namespaces/x/pods/p/LOG",
	"/api/v1/namespaces/x/pods/p/logs", "/api/v1/namespaces/x/pods/p/l%6Fg", "/api/v1/namespaces/x/pods/p%2Flog",
	"/api/v1/namespaces/x/pods/p/log%2F", "/api/v1/namespaces/x/pods/p/log%20", "/api/v1/namespaces/x/pods/p/log+",
	"/api/v1/namespaces/x/pods/p/log/more", "/api/v1/namespaces/x/pods/p/exec", "/api/v1/namespaces/x/pods/p/attach",
	"/api/v1/namespaces/x/pods/p/portforward", "/api/v1/namespaces/x/pods/p/proxy", "/api/v1/namespaces/x/pods/p/proxy/",
	"/api/v1/namespaces/x/pods/p/proxy/a/b", "/api/v1/namespaces/x/pods/p/proxy//a", "/api/v1/namespaces/x/pods/p/status",
	"/api/v1/namespaces/x/pods/p/eviction", "/api/v1/namespaces/x/pods/p/binding", "/api/v1/namespaces/x/pods/log",
	"/api/v1/namespaces/x/pods/exec", "/api/v1/namespaces/x/pods/watch", "/api/v1/namespaces/x/pods/%FF/log",
	"/api/v1/namespaces/x/services/s/proxy", "/api/v1/namespaces/x/services/https:s:443/proxy/a",
	"/api/v1/namespaces/x/services/s/proxy/watch", "/api/v1/namespaces/x/serviceaccounts/a/token",
	"/api/v1/namespaces%2Fx/pods/p/log", "/api/v1%2Fnamespaces/x/pods/p/log", "/api%2Fv1/namespaces/x/pods/p/log",
	"/%61pi/v1/pods", "/api/v1/p%6Fds", "/api/%76%31/pods/p/exec", "/api/v1/pods/p%zz/log", "/api/v1/pods/p%2/log",
	"/api/v1/pods/p/log%",
	"/api/v1/watch", "/api/v1/watch/", "/api/v1/watch/pods", "/api/v1/watch/namespaces/x/pods",
	"/api/v1/watch/namespaces/x/pods/p", "/api/v1/watch/namespaces", "/api/v1/watch/nodes/n", "/api/v1/watch//pods",
	"/api/v1/w%61tch/pods", "/api/v1//watch/pods", "/api/v1/watches/pods",
	"/api/v1/proxy", "/api/v1/proxy/", "/api/v1/proxy/nodes/n", "/api/v1/proxy/nodes/n/log",
	"/api/v1/proxy/namespaces/x/pods/p", "/api/v1/proxy/namespaces/x/pods/p/a/b", "/api/v1/proxy/namespaces/x/services/s:80/",
	"/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/x/deployments", "/apis/apps/v1/namespaces/x/deployments/d",
	"/apis/apps/v1/namespaces/x/deployments/d/scale", "/apis/apps/v1/namespaces/x/deployments/d/log",
	"/apis/apps/v1/namespaces/x/pods/p/proxy", "/apis/apps/v1/watch", "/apis/apps/v1/watch/deployments",
	"/apis/apps/v1/watch/namespaces/x/deployments/d", "/apis/apps/v1/proxy/a", "/apis/watch/v1/a", "/apis/proxy/log/a",
	"/apis//v1/pods", "/apis/apps//deployments", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/metrics.k8s.io/v1beta1/nodes",
	"/apis/subresources.kubevirt.io/v1/namespaces/x/virtualmachineinstances/v/console",
	"/apis/subresources.kubevirt.io/v1/namespaces/x/virtualmachineinstances/v/portforward",
	"/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy", "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy/api/v1/pods",
	ourClusters, ourClusters + "/", ourClusters + "/m1", ourClusters + "/m1/",
	"/api/v1/namespaces/../pods", "/api/v1/namespaces/x/./pods/p/log", "/api/v1/namespaces/%2e%2e/pods",
}

var prefixes = []string{"/api", "/api/v1", "/api/v1", "/api/v1/namespaces/x", "/apis", "/apis/apps/v1", "/apis/apps/v1/namespaces/x", "", "/debug/pprof"}

var segments = []string{
	"", "", "api", "apis", "v1", "apps", "namespaces", "namespaces", "watch", "watch", "proxy", "proxy", "x", "p", "pods", "pods",
	"nodes", "services", "log", "exec", "attach", "portforward", "status", "finalize", "scale", "debug", "pprof", "l%6fg",
	"w%61tch", "a%2Fb", "%2F", "%2f%2F", "pr%6Fxy", "LOG", "Watch", "%20", "%C3%A9", "%FF", "~", "a+b", "a;b", "a:80",
}

var fragments = []string{
	"watch", "watch", "w%61tch", "Watch", "watc", "h", "follow", "fieldSelector", "timeout", "limit", "resourceVersion", "=", "=",
	"=", "&", "&", "&", ";", "%", "%2", "%zz", "%26", "%3D", "%3B", "%2B", "%20", "%00", "%FF", "%C3%A9", "+", "true", "false",
	"False", "0", "1", "00", "t", "f", "5s", "metadata.name", "m1", "m-2", ",", "!", "/", "?", "~", "'", "\\", "\"",
}

var fixedQueries = []string{
	"watch", "watch=", "watch=1", "watch=0", "watch=00", "watch=true", "watch=false", "watch=FALSE", "watch=fAlSe", "watch=f",
	"watch=no", "watch=bogus", "watch=true&watch=false", "watch=false&watch=true", "watch=&watch=0", "watch=0&watch",
	"Watch=1", "WATCH=1", "w%61tch=1", "w%6", "%77atch=%31", "watch%=1&watch=1", "watch%zz=1", "watch=%zz", "watch=%zz&watch=0",
	"watch=%zz&watch=1", "watch=%", "watch=%2", "watch=%20", "watch=%30", "watch=+", "watch=+0", "watch=0+", "+watch=1",
	"watch+=1", "watch=1;", "watch=1;x", ";watch=1", "x;watch=1", "watch;=1", "watch=1%3B", "watch=1;&watch=0", "x=;&watch=1",
	"&watch=1", "&&watch=1&&", "watch=1&x=%zz", "x=%zz&watch=1", "=watch", "==1", "=&=", "&", "watch==1", "watch=0=", "?watch=1",
	"/watch=1", "watch%3D1", "watch%3D=1", "watch%261", "watch=%66alse", "watch=fal%73e", "watch=fal%C5%BFe", "watch=%FF", "watch=%C3%A9",
	"limit=x&watch=1", "limit=x&watch=0", "limit=x&watch", "limit=x&watch=False", "limit=x", "limit=&watch=1", "limit=5",
	"timeoutSeconds=x&watch=1", "timeoutSeconds=5&watch=1", "resourceVersion=x&watch=1", "sendInitialEvents=x&watch=1",
	"labelSelector=%3D%3D&watch=1", "labelSelector=a+in+(b)&watch=1", "fieldSelector=", "fieldSelector=metadata.name",
	"fieldSelector=metadata.name=m1", "fieldSelector=metadata.name==m1", "fieldSelector=metadata.name%3Dm1",
	"fieldSelector=metadata.name!=m1", "fieldSelector=metadata.name=m1&watch=1", "watch=1&fieldSelector=metadata.name%3Dm1",
	"fieldSelector=metadata.name=m1,metadata.name=m2", "fieldSelector=metadata.name!=m1,metadata.name=m2",
	"fieldSelector=metadata.name=m1,status.x=1", "fieldSelector=status.x=1", "fieldSelector=metadata.name=",
	"fieldSelector=metadata.name=a/b", "fieldSelector=metadata.name=a%2Fb", "fieldSelector=metadata.name=..",
	"fieldSelector=metadata.name=M1", "fieldSelector=metadata.name=%20m1", "fieldSelector=metadata.name=+m1",
	"fieldSelector=metadata.name+=m1", "fieldSelector=,metadata.name=m1,", "fieldSelector=metadata.name=m1%5C,x",
	"fieldSelector=metadata.name=m1%5C%5C", "fieldSelector=metadata.name=m1%5Cx", "fieldSelector=metadata.name=m1=x",
	"fieldSelector=metadata.name=m1&fieldSelector=metadata.name=m2", "fieldSelector=&fieldSelector=metadata.name=m2",
	"fieldSelector=metadata.name=m1&limit=x", "fieldSelector=metadata.name=m1&labelSelector=%3D%3D",
	"fieldSelector=metadata.name=%zz&fieldSelector=metadata.name=m2", "fieldSelector=metadata.name=m1;",
	"f%69eldSelector=metadata.name=m1", "fieldSelector=metadata.name=m1&watch=%zz",
	"timeout=5s", "timeout=+5s", "timeout=%2B5s", "timeout=5s;", "timeout=%zz&timeout=7s", "time%6Fut=7s", "timeout=&timeout=7s",
	"follow=true", "a=b&a=c&b=%61", "a+b=c+d", "a%20b=c%2Bd", "%00=%01", "%FF=%FE", "a=%e2%82%ac", "\"=\"", "{}=|", "a='", "a=^`",
}

func fatal(words ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"request-info:"}, words...)...)
	os.Exit(1)
}
