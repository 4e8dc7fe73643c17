//go:build tools

// Package workflows names the linter of GitHub's workflows, so that go.mod and go.sum keep what it needs.
package workflows

import _ "github.com/rhysd/actionlint/cmd/actionlint"
