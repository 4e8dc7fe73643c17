package main

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
)

// fingerprints returns the fingerprints of the certificates that x509.CertPool.AppendCertsFromPEM accepts from a bundle.
// The pool does not expose them.
func fingerprints(bundle []byte) []string {
	found := []string{}
	for len(bundle) > 0 {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, fingerprint(certificate.Raw))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
