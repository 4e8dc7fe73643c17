//! Validates the flags that replace keys of ConfigMap `extension-apiserver-authentication`.

use std::collections::BTreeMap;

use super::error::{Error, read};
use crate::identity::trust::Trust;
use crate::programs::args;

/// The replaced keys.
pub(super) fn parse(flags: args::Trust) -> Result<BTreeMap<String, String>, Error> {
    let mut trust = BTreeMap::new();
    for (key, file) in [
        ("client-ca-file", flags.client_ca_file),
        ("requestheader-client-ca-file", flags.requestheader_client_ca_file),
    ] {
        if let Some(file) = file {
            trust.insert(key.to_owned(), read(key, &file)?);
        }
    }
    for (key, list) in [
        ("requestheader-allowed-names", flags.requestheader_allowed_names),
        ("requestheader-username-headers", flags.requestheader_username_headers),
        ("requestheader-uid-headers", flags.requestheader_uid_headers),
        ("requestheader-group-headers", flags.requestheader_group_headers),
        ("requestheader-extra-headers-prefix", flags.requestheader_extra_headers_prefix),
    ] {
        if let Some(list) = list {
            trust.insert(key.to_owned(), serde_json::json!(list).to_string());
        }
    }
    Trust::parse(&trust).map_err(|error| Error::Flag(error.to_string()))?;
    Ok(trust)
}
