use super::*;
use crate::cluster::transport::pem;

/// A self-signed certificate for 127.0.0.1 with an RSA key of 1024 bits, which expires in 2126.
const WEAK: &str = "\
-----BEGIN CERTIFICATE-----
MIICDTCCAXagAwIBAgIUTEQxFf8lusklDtv2NplpwqzFG4gwDQYJKoZIhvcNAQEL
BQAwDzENMAsGA1UEAwwEd2VhazAgFw0yNjExMjkxNTUwNThaGA8yMTI2MTEwNTE1
NTA1OFowDzENMAsGA1UEAwwEd2VhazCBnzANBgkqhkiG9w0BAQEFAAOBjQAwgYkC
gYEA2IP7a3sShT96pjkyCCayW1ZqYTnwd5/rZGrGeC79SUys1/nvzpAZXkEVsnqi
SMiiKdfrqpl//HgTbRQLx03sikwm1n6bgvuAwW0xREswPqYdN5918nR05bBbQ6zB
EhiByGASRuoi6hEKhZb27zpBGJRNdiFcp4UE/hFwFIHxL9sCAwEAAaNkMGIwHQYD
VR0OBBYEFFpspKjuqttcJ3aum+Hlc8uL9ztzMB8GA1UdIwQYMBaAFFpspKjuqttc
J3aum+Hlc8uL9ztzMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0RBAgwBocEfwAAATAN
BgkqhkiG9w0BAQsFAAOBgQAl1eqaZYRPIhOs91D30+L6+BHk3Ari3y1+skYMFd4L
leI2cL0kahpRibhJcRG0JdgSBJA3lDUoHQDJKT4R6pZl/CvsHz0genhcEiCIfaDU
E036Hbw2Bp57NRJXWc6CfcN/kZL5rRSF+LeB7IjhC+fywMKqEw1BUfTnDj8Cb9Pa
Hg==
-----END CERTIFICATE-----
";
/// A certificate for 127.0.0.1 that it has signed.
const SIGNED_BY_WEAK: &str = "\
-----BEGIN CERTIFICATE-----
MIIBtTCCAR6gAwIBAgIUYwr7DzGGsnoNknXuAWe6zBQPu1kwDQYJKoZIhvcNAQEL
BQAwDzENMAsGA1UEAwwEd2VhazAgFw0yNjExMjkxNTUwNThaGA8yMTI2MTEwNTE1
NTA1OFowDzENMAsGA1UEAwwEbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
BG+N73/dV8VdPpgRV5iRaRKrNf6n+ca/rhWQkkP3699jt4amjdJbtzmVrGPt19bV
4MFD2cQGw8uuL4bkF7/D1sajUzBRMA8GA1UdEQQIMAaHBH8AAAEwHQYDVR0OBBYE
FNRuSBmeajCmlCVkN+RwYtpnuBiVMB8GA1UdIwQYMBaAFFpspKjuqttcJ3aum+Hl
c8uL9ztzMA0GCSqGSIb3DQEBCwUAA4GBABldeJNp6fptvka5MuBqNgXRANj/Qfy/
WhF05Gox4Q/AonKM5nUnGs/wKPe0SZU3+CQbZfrEOyocjKZyvaqZaJEg+HANizNO
UKRaw4g/9IzmtvzmMQBxRhGk2/xX6G/3ppGKRK6Y4kLSqKbfXcjam9QjBQPVNyzi
GIuynQIh9nGg
-----END CERTIFICATE-----
";

fn verify(certificate: &str, roots: &[&str]) -> String {
    let der = |pem: &str| CertificateDer::from(pem::blocks(pem.as_bytes()).remove(0).content);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Verifier::new(roots.iter().map(|root| der(root)).collect(), &provider);
    let (certificate, name) = (der(certificate), ServerName::try_from("127.0.0.1").unwrap());
    let verified = verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now());
    let Err(error) = verified else { return "accepted".to_owned() };
    Refused::among(crate::error::causes(&error))
        .map_or_else(|| error.to_string(), |reason| reason.to_string())
}

#[test]
fn short_rsa_key_is_refused_with_its_size() {
    let own = "the server's certificate has an RSA key of 1024 bits, and kubectl mc accepts \
               2048 and more: renew the certificate with a larger key";
    assert_eq!(verify(WEAK, &[WEAK]), own);
    let authority = "the authority of the server's certificate has an RSA key of 1024 bits, \
                     and kubectl mc accepts 2048 and more: renew the authority with a larger key";
    assert_eq!(verify(SIGNED_BY_WEAK, &[WEAK]), authority);
    // A pinned certificate needs no issuer.
    assert_eq!(verify(SIGNED_BY_WEAK, &[SIGNED_BY_WEAK]), "accepted");
    assert_eq!(verify(SIGNED_BY_WEAK, &[]), "invalid peer certificate: UnknownIssuer");
}
