//go:build tools

// Package karmada names its programs, so that go.mod and go.sum keep what they need.
package karmada

import (
	_ "github.com/karmada-io/karmada/cmd/agent"
	_ "github.com/karmada-io/karmada/cmd/aggregated-apiserver"
	_ "github.com/karmada-io/karmada/cmd/karmadactl"
)
