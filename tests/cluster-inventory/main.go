// A consumer of ClusterProfiles, like other controllers. It lists the profiles of a namespace on the host. For each cluster
// it builds a client with the Cluster Inventory API's library and its own credential of the host. Prints
// "PROFILE: NAMESPACE..." or "PROFILE: error: ..." for each profile.
//
// Arguments: the host's kubeconfig, the namespace, and the command that prints an ExecCredential.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-inventory-api/client/clientset/versioned"
	"sigs.k8s.io/cluster-inventory-api/pkg/access"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, namespace, command string) error {
	host, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	inventory, err := versioned.NewForConfig(host)
	if err != nil {
		return err
	}
	profiles, err := inventory.ApisV1alpha1().ClusterProfiles(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "x-k8s.io/cluster-manager=kubectl-mc",
	})
	if err != nil {
		return err
	}
	providers := access.New([]access.Provider{{
		Name: "kubectl-mc",
		ExecConfig: &clientcmdapi.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1", Command: command,
		},
	}})
	for i := range profiles.Items {
		profile := &profiles.Items[i]
		config, err := providers.BuildConfigFromCP(profile)
		if err != nil {
			return err
		}
		member, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		namespaces, err := member.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			// The consumer may not enter every member.
			fmt.Printf("%s: error: %v\n", profile.Name, err)
			continue
		}
		names := []string{}
		for _, namespace := range namespaces.Items {
			names = append(names, namespace.Name)
		}
		fmt.Printf("%s: %s\n", profile.Name, strings.Join(names, " "))
	}
	return nil
}
