//go:build tools

// Package helm names the program that renders and checks the chart, so that go.mod and go.sum keep what it needs.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
