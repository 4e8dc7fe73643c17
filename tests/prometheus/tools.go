//go:build tools

// Package prometheus names both of its programs, so that go.sum keeps what they need.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
