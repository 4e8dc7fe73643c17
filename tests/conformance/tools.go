//go:build tools

// Package conformance names upstream's end-to-end tests, so that go.mod and go.sum keep what they need.
package conformance

import (
	_ "k8s.io/kubernetes/test/e2e"
)
