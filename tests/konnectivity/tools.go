//go:build tools

// Package konnectivity names both of its programs, so that go.mod and go.sum keep what they need.
package konnectivity

import (
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/agent"
	_ "sigs.k8s.io/apiserver-network-proxy/cmd/server"
)
