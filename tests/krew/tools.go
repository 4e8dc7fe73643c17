//go:build tools

// Package krew names the programs that check the manifest and install the plugin, so that go.mod and go.sum keep what
// they need.
package krew

import (
	_ "sigs.k8s.io/krew/cmd/krew"
	_ "sigs.k8s.io/krew/cmd/validate-krew-manifest"
)
