// An informer of client-go on the ConfigMaps of a namespace, as controllers have it. Prints "SYNCED" when its cache is
// complete for the first time, and "ADDED NAMESPACE/NAME", "UPDATED ..." or "DELETED ..." for each change of the cache. Errors
// of its reflector are lines "ERROR ...".
//
// Arguments: the namespace, and "strict" or "plain": whether it accepts incomplete lists. KUBECONFIG names the server, and
// KUBE_FEATURE_WatchListClient chooses how it lists.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	if err := run(os.Args[1], os.Args[2] == "strict"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(namespace string, isStrict bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	if isStrict {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return strict{next} })
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	only := func(options *metav1.ListOptions) { options.LabelSelector = "test=a" }
	informer := dynamicinformer.NewFilteredDynamicInformer(
		client, configMaps, namespace, 0, cache.Indexers{}, only).Informer()
	err = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		fmt.Println("ERROR", strings.ReplaceAll(err.Error(), "\n", " "))
	})
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("ADDED", object) },
		UpdateFunc: func(_, object any) { tell("UPDATED", object) },
		DeleteFunc: func(object any) { tell("DELETED", object) },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	go informer.RunWithContext(ctx)
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		fmt.Println("SYNCED")
	}
	<-ctx.Done()
	return nil
}

func tell(change string, object any) {
	name, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		fmt.Println("ERROR", err)
		return
	}
	fmt.Println(change, name)
}

// strict asks for complete answers only (RFC 7240).
type strict struct{ next http.RoundTripper }

func (s strict) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Prefer", "handling=strict")
	return s.next.RoundTrip(request)
}
