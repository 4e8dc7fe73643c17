//! Parses the tracing configuration, in the format of a kube-apiserver (component-base: `tracing/api/v1`).

use std::path::Path;

use http::uri::Authority;
use serde::Deserialize;

/// The destination of spans, and the share of sampled requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The URL of the OTLP collector.
    pub(super) endpoint: String,
    /// The share of sampled requests among those without a caller's decision, from 0 to 1.
    pub(super) sampling_rate: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    endpoint: Option<String>,
    #[serde(default)]
    sampling_rate_per_million: Option<i32>,
}

impl Config {
    /// # Errors
    ///
    /// The file cannot be read, is not a tracing configuration, or has an invalid value.
    pub fn read(file: &Path) -> Result<Self, Error> {
        Self::parse(&std::fs::read_to_string(file)?)
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let malformed = |error: &dyn ToString| Error::Malformed(error.to_string());
        // Deserializing YAML directly into each type would add 140 KB to the binary.
        let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| malformed(&error))?;
        let file: File = serde_json::from_value(value).map_err(|error| malformed(&error))?;
        let version = file.api_version.strip_prefix(GROUP).unwrap_or_default();
        if file.kind != KIND || !["v1", "v1beta1", "v1alpha1"].contains(&version) {
            return Err(Error::Kind { kind: file.kind, version: file.api_version });
        }
        let rate = file.sampling_rate_per_million.unwrap_or(0);
        if !(0..=MILLION).contains(&rate) {
            return Err(Error::SamplingRate(rate));
        }
        let endpoint = file.endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        Ok(Self { endpoint: url(endpoint)?, sampling_rate: f64::from(rate) / f64::from(MILLION) })
    }
}

/// The collector's URL for a gRPC target. The connection has no TLS, as upstream.
fn url(endpoint: &str) -> Result<String, Error> {
    let invalid = |reason| Error::Endpoint { endpoint: endpoint.to_owned(), reason };
    let target = match endpoint.split_once("//") {
        None => endpoint,
        // A gRPC target may have a DNS server before the third slash.
        Some(("dns:", rest)) => {
            rest.strip_prefix('/').ok_or_else(|| invalid("a DNS server cannot be chosen"))?
        }
        Some(("unix:", rest)) if rest.starts_with('/') => return Ok(endpoint.to_owned()),
        Some(_) => return Err(invalid("use HOST:PORT, dns:///HOST:PORT or unix:///PATH")),
    };
    let authority: Option<Authority> = target.parse().ok().filter(|_| !target.contains('@'));
    let has_port = authority.is_some_and(|authority| authority.port_u16().is_some_and(|port| port != 0));
    if has_port { Ok(format!("http://{target}")) } else { Err(invalid("use HOST:PORT")) }
}

const GROUP: &str = "apiserver.config.k8s.io/";
const KIND: &str = "TracingConfiguration";
/// OTLP's gRPC port on this machine, for a collector next to the sidecar.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
const MILLION: i32 = 1_000_000;

/// Why a configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Read(#[from] std::io::Error),
    #[error("{0}")]
    Malformed(String),
    #[error("the file holds a {kind} of {version}, not a TracingConfiguration of apiserver.config.k8s.io/v1")]
    Kind { kind: String, version: String },
    #[error("samplingRatePerMillion: {0} is not from 0 to 1000000")]
    SamplingRate(i32),
    #[error("endpoint: {endpoint:?}: {reason}")]
    Endpoint { endpoint: String, reason: &'static str },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<Config, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n{fields}\n");
        Config::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_match_kube_apiserver() {
        let config = Config { endpoint: "http://localhost:4317".to_owned(), sampling_rate: 0.0 };
        assert_eq!(parse("").unwrap(), config);
        for version in ["v1beta1", "v1alpha1"] {
            let text = format!("apiVersion: apiserver.config.k8s.io/{version}\nkind: TracingConfiguration\n");
            assert_eq!(Config::parse(&text).unwrap(), config, "{version}");
        }
    }

    #[test]
    fn sampling_rate_is_per_million() {
        assert_eq!(parse("samplingRatePerMillion: 250000").unwrap().sampling_rate, 0.25);
        for rate in [-1, 1_000_001] {
            let error = parse(&format!("samplingRatePerMillion: {rate}")).unwrap_err();
            assert_eq!(error, format!("samplingRatePerMillion: {rate} is not from 0 to 1000000"));
        }
    }

    #[test]
    fn endpoint_is_a_grpc_target_without_tls() {
        for (endpoint, url) in [
            ("collector:4317", "http://collector:4317"),
            ("10.0.0.1:4317", "http://10.0.0.1:4317"),
            ("'[::1]:4317'", "http://[::1]:4317"),
            ("dns:///collector:4317", "http://collector:4317"),
            ("unix:///run/otel.sock", "unix:///run/otel.sock"),
        ] {
            assert_eq!(parse(&format!("endpoint: {endpoint}")).unwrap().endpoint, url);
        }
        for endpoint in ["", "collector", "http://c:1", "https://c:1", "dns://server/c:1", "u:p@c:1", "c:1/x"]
        {
            let error = parse(&format!("endpoint: '{endpoint}'")).unwrap_err();
            assert!(error.starts_with("endpoint: "), "{endpoint}: {error}");
        }
    }

    #[test]
    fn unknown_field_is_named() {
        let error = parse("samplingRate: 1").unwrap_err();
        assert!(error.contains("samplingRate"), "{error}");
        assert!(parse("samplingRatePerMillion: 1\nsamplingRatePerMillion: 2").is_err());
        let error = Config::parse("apiVersion: v1\nkind: Pod\n").unwrap_err().to_string();
        let expected = "the file holds a Pod of v1, not a TracingConfiguration of apiserver.config.k8s.io/v1";
        assert_eq!(error, expected);
    }
}
