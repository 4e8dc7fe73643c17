// Package main writes objects as a client sends them to the fleet view and as the member m1 gets them, encoded by
// upstream's code: group, resource, subresource, then protobuf and JSON of the view, and protobuf and JSON of the member.
// The sidecar's tests compare with it (see generate.sh).
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// row is a resource and an object of it, made from the names of the view or of the member.
type row struct {
	group, resource, subresource string
	object                       func(n names) runtime.Object
}

// names writes the names of the view, or those of the member.
type names struct {
	suffix, version string
	annotation      map[string]string
}

func (n names) of(name string) string { return name + n.suffix }

func (n names) ref(kind, namespace, name string) core.ObjectReference {
	ref := core.ObjectReference{Kind: kind, APIVersion: "v1", Name: name, UID: "uid_m1", FieldPath: "spec_m1"}
	if namespace == "" {
		ref.Name = n.of(name)
	} else {
		ref.Namespace = n.of(namespace)
	}
	return ref
}

func (n names) meta(scoped bool) meta.ObjectMeta {
	yes := true
	generation := int64(300)
	object := meta.ObjectMeta{
		Name: "one", Namespace: n.of("fv"), ResourceVersion: n.version, UID: "uid_m1", Generation: generation,
		Labels: map[string]string{"app": "a_m1"}, Annotations: map[string]string{"b": "b_m1"},
		OwnerReferences: []meta.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: n.of("n1"), UID: "u", Controller: &yes},
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u"},
		},
		Finalizers: []string{"f_m1"},
		ManagedFields: []meta.ManagedFieldsEntry{
			{Manager: "m_m1", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: &meta.FieldsV1{Raw: []byte("{}")}},
		},
	}
	for key, value := range n.annotation {
		object.Annotations[key] = value
	}
	if !scoped {
		object.Namespace, object.Name = "", n.of("one")
		object.OwnerReferences[1] = meta.OwnerReference{APIVersion: "example.com/v1", Kind: "Foo", Name: n.of("foo"), UID: "u"}
	}
	return object
}

func (n names) pod() core.PodSpec {
	return core.PodSpec{
		Volumes:           []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}},
		Containers:        []core.Container{{Name: "c", Image: "i_m1", Args: []string{"a_m1"}}},
		NodeSelector:      map[string]string{"kubernetes.io/hostname": "n_m1"},
		NodeName:          n.of("n1"),
		PriorityClassName: "high", SchedulerName: "s_m1",
	}
}

func (n names) template() core.PodTemplateSpec {
	return core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: n.pod()}
}

func (n names) subjects() []rbac.Subject {
	return []rbac.Subject{
		{Kind: "ServiceAccount", Name: "default", Namespace: n.of("other")},
		{Kind: "User", APIGroup: rbac.GroupName, Name: "bob_m1"},
	}
}

func (n names) addresses() []core.EndpointAddress {
	node, target := n.of("n1"), n.ref("Pod", "fv", "web")
	return []core.EndpointAddress{{IP: "10.0.0.1"}, {IP: "10.0.0.2", NodeName: &node, TargetRef: &target}}
}

var rows = []row{
	{"", "pods", "", func(n names) runtime.Object {
		return &core.Pod{ObjectMeta: n.meta(true), Spec: n.pod(), Status: core.PodStatus{Phase: "Pending", NominatedNodeName: n.of("n2"), Message: "m_m1"}}
	}},
	{"", "nodes", "", func(n names) runtime.Object {
		return &core.Node{ObjectMeta: n.meta(false), Spec: core.NodeSpec{ProviderID: "p_m1"}}
	}},
	{"", "configmaps", "", func(n names) runtime.Object {
		return &core.ConfigMap{ObjectMeta: n.meta(true), Data: map[string]string{"k": "fv_m1"}}
	}},
	{"", "pods", "binding", func(n names) runtime.Object {
		return &core.Binding{ObjectMeta: n.meta(true), Target: n.ref("Node", "", "n1")}
	}},
	{"", "pods", "eviction", func(n names) runtime.Object {
		return &policy.Eviction{ObjectMeta: n.meta(true), DeleteOptions: &meta.DeleteOptions{Preconditions: &meta.Preconditions{ResourceVersion: &n.version}}}
	}},
	{"", "serviceaccounts", "token", func(n names) runtime.Object {
		return &authentication.TokenRequest{ObjectMeta: n.meta(true), Spec: authentication.TokenRequestSpec{
			Audiences: []string{"a_m1"}, BoundObjectRef: &authentication.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: n.of("n1")}}}
	}},
	{"apps", "deployments", "scale", func(n names) runtime.Object {
		return &autoscaling.Scale{ObjectMeta: n.meta(true), Spec: autoscaling.ScaleSpec{Replicas: 3}}
	}},
	{"", "events", "", func(n names) runtime.Object {
		related := n.ref("Pod", "fv", "web")
		return &core.Event{ObjectMeta: n.meta(true), InvolvedObject: n.ref("Node", "", "n1"), Related: &related, Message: "n1_m1", Count: 3}
	}},
	{"events.k8s.io", "events", "", func(n names) runtime.Object {
		related := n.ref("Node", "", "n1")
		return &events.Event{ObjectMeta: n.meta(true), Regarding: n.ref("Pod", "fv", "web"), Related: &related, Note: "n1_m1"}
	}},
	{"", "persistentvolumes", "", func(n names) runtime.Object {
		claim := n.ref("PersistentVolumeClaim", "fv", "data")
		return &core.PersistentVolume{ObjectMeta: n.meta(false), Spec: core.PersistentVolumeSpec{ClaimRef: &claim, StorageClassName: "fast"}}
	}},
	{"", "persistentvolumeclaims", "", func(n names) runtime.Object {
		other := n.of("other")
		return &core.PersistentVolumeClaim{ObjectMeta: n.meta(true), Spec: core.PersistentVolumeClaimSpec{
			VolumeName: n.of("pv1"), DataSourceRef: &core.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "d", Namespace: &other}}}
	}},
	{"", "endpoints", "", func(n names) runtime.Object {
		return &core.Endpoints{ObjectMeta: n.meta(true), Subsets: []core.EndpointSubset{
			{Ports: []core.EndpointPort{{Port: 80}}}, {Addresses: n.addresses(), NotReadyAddresses: n.addresses()}}}
	}},
	{"discovery.k8s.io", "endpointslices", "", func(n names) runtime.Object {
		node, target := n.of("n1"), n.ref("Pod", "fv", "web")
		return &discovery.EndpointSlice{ObjectMeta: n.meta(true), AddressType: "IPv4", Endpoints: []discovery.Endpoint{
			{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"10.0.0.2"}, NodeName: &node, TargetRef: &target}}}
	}},
	{"", "podtemplates", "", func(n names) runtime.Object {
		return &core.PodTemplate{ObjectMeta: n.meta(true), Template: n.template()}
	}},
	{"", "replicationcontrollers", "", func(n names) runtime.Object {
		template := n.template()
		return &core.ReplicationController{ObjectMeta: n.meta(true), Spec: core.ReplicationControllerSpec{Template: &template}}
	}},
	{"apps", "deployments", "", func(n names) runtime.Object {
		return &apps.Deployment{ObjectMeta: n.meta(true), Spec: apps.DeploymentSpec{Template: n.template()}}
	}},
	{"apps", "replicasets", "", func(n names) runtime.Object {
		return &apps.ReplicaSet{ObjectMeta: n.meta(true), Spec: apps.ReplicaSetSpec{Template: n.template()}}
	}},
	{"apps", "statefulsets", "", func(n names) runtime.Object {
		return &apps.StatefulSet{ObjectMeta: n.meta(true), Spec: apps.StatefulSetSpec{Template: n.template(), ServiceName: "s"}}
	}},
	{"apps", "daemonsets", "", func(n names) runtime.Object {
		return &apps.DaemonSet{ObjectMeta: n.meta(true), Spec: apps.DaemonSetSpec{Template: n.template()}}
	}},
	{"batch", "jobs", "", func(n names) runtime.Object {
		return &batch.Job{ObjectMeta: n.meta(true), Spec: batch.JobSpec{Template: n.template()}}
	}},
	{"batch", "cronjobs", "", func(n names) runtime.Object {
		return &batch.CronJob{ObjectMeta: n.meta(true), Spec: batch.CronJobSpec{
			Schedule: "@hourly", JobTemplate: batch.JobTemplateSpec{Spec: batch.JobSpec{Template: n.template()}}}}
	}},
	{"rbac.authorization.k8s.io", "rolebindings", "", func(n names) runtime.Object {
		return &rbac.RoleBinding{ObjectMeta: n.meta(true), Subjects: n.subjects(), RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: n.of("my_role")}}
	}},
	{"rbac.authorization.k8s.io", "clusterrolebindings", "", func(n names) runtime.Object {
		return &rbac.ClusterRoleBinding{ObjectMeta: n.meta(false), Subjects: n.subjects(), RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: n.of("my_role")}}
	}},
	{"authorization.k8s.io", "selfsubjectaccessreviews", "", func(n names) runtime.Object {
		return &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorization.ResourceAttributes{Namespace: n.of("fv"), Verb: "get", Resource: "nodes", Name: n.of("n1")}}}
	}},
	{"authorization.k8s.io", "subjectaccessreviews", "", func(n names) runtime.Object {
		return &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
			User: "bob_m1", ResourceAttributes: &authorization.ResourceAttributes{Namespace: n.of("fv"), Verb: "get", Resource: "pods", Name: "p_m1"}}}
	}},
	{"authorization.k8s.io", "selfsubjectrulesreviews", "", func(n names) runtime.Object {
		return &authorization.SelfSubjectRulesReview{Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: n.of("fv")}}
	}},
}

func main() {
	view := names{suffix: "_m1", version: "m1.42", annotation: map[string]string{"fleet.kubectl-mc.dev/cluster": "m1"}}
	member := names{version: "42"}
	for _, row := range rows {
		fmt.Printf("%s\t%s\t%s", row.group, row.resource, row.subresource)
		for _, object := range []runtime.Object{row.object(view), row.object(member)} {
			kinds, _, err := scheme.Scheme.ObjectKinds(object)
			check(err)
			object.GetObjectKind().SetGroupVersionKind(kinds[0])
			var text bytes.Buffer
			check(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &text))
			jsonText, err := json.Marshal(object)
			check(err)
			fmt.Printf("\t%s\t%s", base64.StdEncoding.EncodeToString(text.Bytes()), jsonText)
		}
		fmt.Println()
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
