// Reads audit events from standard input, one per line, into upstream's type and prints each one in upstream's legacy
// format. Decoding is strict: an unknown or repeated field is an error.
package main

import (
	"bufio"
	"fmt"
	"os"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	kjson "sigs.k8s.io/json"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		strict, err := kjson.UnmarshalStrict(lines.Bytes(), &event)
		if err == nil && len(strict) > 0 {
			err = strict[0]
		}
		var internal auditinternal.Event
		if err == nil {
			err = auditv1.Convert_v1_Event_To_audit_Event(&event, &internal, nil)
		}
		if err == nil && (event.Kind != "Event" || event.APIVersion != auditv1.SchemeGroupVersion.String()) {
			err = fmt.Errorf("it is a %s of %s", event.Kind, event.APIVersion)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s\n", err, lines.Text())
			os.Exit(1)
		}
		fmt.Println(audit.EventString(&internal))
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
