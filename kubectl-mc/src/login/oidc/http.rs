//! Sends requests to an issuer: only by TLS, without following redirects, and with a size limit for the
//! response.

use std::path::Path;

use http::{Method, Request, StatusCode, Uri, header};
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use super::error::OidcError;
use crate::cluster::client::{self, ClientError, Reply};
use crate::cluster::named_file;
use crate::cluster::transport::{Transport, proxy_from_environment};
use crate::env::Env;
use crate::log::Log;

pub(super) struct HttpClient {
    /// DER; `None` means the system's authorities.
    authorities: Option<Vec<Vec<u8>>>,
    env: Env,
}

/// A response of the issuer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Null if it is not JSON.
    pub(super) body: Value,
}

impl HttpClient {
    pub(super) fn new(authority: Option<&Path>, env: &Env) -> Result<Self, OidcError> {
        let read = |file: &Path| {
            let pem = named_file::read(file)
                .map_err(|source| OidcError::Authority { file: file.to_owned(), source })?;
            let found = CertificateDer::pem_slice_iter(&pem).map(|one| one.map(|one| one.to_vec()));
            let found = found.collect::<Result<Vec<_>, _>>().unwrap_or_default();
            if found.is_empty() { Err(OidcError::NoCertificate { file: file.to_owned() }) } else { Ok(found) }
        };
        Ok(Self { authorities: authority.map(read).transpose()?, env: env.clone() })
    }

    pub(super) async fn get(&self, url: &str) -> Result<Value, OidcError> {
        let reply = self.send(url, Request::builder(), Body::empty()).await?;
        if reply.status.is_success() {
            return Ok(reply.json());
        }
        Err(OidcError::Answered { url: url.to_owned(), status: reply.status.as_u16(), text: reply.message() })
    }

    /// Posts a form, with the given Authorization header if there is one.
    pub(super) async fn post(
        &self,
        url: &str,
        fields: &[(&str, &str)],
        authorization: Option<&str>,
    ) -> Result<Answer, OidcError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let reply = self.send(url, request, form(fields).into_bytes().into()).await?;
        Ok(Answer { status: reply.status, body: reply.json() })
    }

    async fn send(&self, url: &str, request: http::request::Builder, body: Body) -> Result<Reply, OidcError> {
        let uri: Uri = url.parse().map_err(|_| OidcError::NotHttps(url.to_owned()))?;
        let authority = uri.authority().cloned().filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| OidcError::NotHttps(url.to_owned()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let unreachable = |error: ClientError| OidcError::Unreachable { url: url.to_owned(), error };
        let setup = |error| unreachable(ClientError::Setup(error));
        let proxy_url = proxy_from_environment(&uri, &self.env).map_err(|error| setup(error.into()))?;
        // The request contains the path, because kube prepends the path of the server.
        let origin = format!("https://{authority}");
        let server = Uri::builder().scheme("https").authority(authority).path_and_query("/").build();
        let server = server.map_err(|error| setup(Box::new(error)))?;
        let transport = Transport::to(server, self.authorities.clone(), proxy_url);
        let client =
            client::without_credential(&transport, Some(client::READ_TIMEOUT)).map_err(unreachable)?;
        let client = client::logged(client, &origin, Log::new(&self.env));
        let request = request
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .body(body)
            .map_err(|e| setup(Box::new(e)))?;
        client::send_limited(&client, request, MAX_ANSWER).await.map_err(unreachable)
    }
}

/// Encodes a form.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let fields = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    fields.collect::<Vec<_>>().join("&")
}

pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// All characters except the unreserved ones (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// More than documents and tokens need.
const MAX_ANSWER: usize = 1024 * 1024;
