//! Reads the user from a client certificate (apiserver: `authentication/request/x509`). Only for
//! certificates of verified chains.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::Identity;

/// The user of a verified leaf: CN is the name, each O a group. `None` without a CN.
pub fn identity(leaf: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(leaf).ok()?;
    let subject = certificate.subject();
    let text =
        |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().ok().map(str::to_owned);
    let user = subject.iter_common_name().last().and_then(text).filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().filter_map(text).collect();
    let uid = subject.iter_attributes().find(|a| a.attr_type().to_id_string() == UID_OID).and_then(text);
    let fingerprint = digest::digest(&digest::SHA256, leaf);
    let id: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={id}")])]);
    Some(Identity { user, uid, groups, extra })
}

/// The leaf's common name, empty if it has none.
pub fn common_name(leaf: &CertificateDer<'_>) -> String {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else { return String::new() };
    let name = certificate.subject().iter_common_name().last().and_then(|cn| cn.as_str().ok());
    name.unwrap_or_default().to_owned()
}

/// apiserver: `authentication/user.CredentialIDKey`
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// apiserver: the subject attribute that carries a user's uid (`x509.userUIDOID`)
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn leaf(names: &[(DnType, &str)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn common_name_is_the_user_and_organization_the_group() {
        let leaf = leaf(&[(DnType::CommonName, "jane"), (DnType::OrganizationName, "dev")]);
        let identity = identity(&leaf).unwrap();
        assert_eq!((identity.user.as_str(), identity.groups.as_slice()), ("jane", &["dev".to_owned()][..]));
        assert!(identity.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert_eq!(common_name(&leaf), "jane");
    }

    #[test]
    fn uid_attribute_is_the_uid() {
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        assert_eq!(
            identity(&leaf(&[(DnType::CommonName, "jane"), (uid, "42")])).unwrap().uid.as_deref(),
            Some("42")
        );
    }

    #[test]
    fn fault_18_certificate_without_a_name_is_no_user() {
        assert!(identity(&leaf(&[(DnType::OrganizationName, "dev")])).is_none());
    }
}
