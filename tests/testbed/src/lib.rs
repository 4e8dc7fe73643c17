//! A real Kubernetes for the tests.
