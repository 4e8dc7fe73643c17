//! The credential that client-go sends in `Authorization` for a user of a kubeconfig: a token, a file with one, a
//! name with a password, or the token of an `auth-provider`. Credential plugins run elsewhere.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use jiff::Timestamp;
use kube::config::{AuthInfo, AuthProviderConfig};
use percent_encoding::percent_decode_str;
use secrecy::ExposeSecret;
use serde_json::Value;

use crate::cluster::named_file;

/// The source of `Authorization`.
#[derive(Debug)]
pub(crate) enum Authorization {
    None,
    Fixed(HeaderValue),
    /// A file that may change while the command runs, and its content.
    File(PathBuf, HeaderValue),
}

impl Authorization {
    /// The credential of a user, by client-go's precedence.
    pub(super) fn of(user: &AuthInfo) -> Result<Self, String> {
        // client-go creates the provider even if there is another credential.
        let provider = user.auth_provider.as_ref().map(Oidc::of).transpose()?;
        let token = user.token.as_ref().map(ExposeSecret::expose_secret).filter(|token| !token.is_empty());
        if let Some(file) = &user.token_file {
            return match (from_file(Path::new(file)), token) {
                (Ok(value), _) => Ok(Self::File(file.into(), value)),
                // If there is a token, an unusable file does not matter.
                (Err(_), Some(token)) => Ok(Self::Fixed(bearer("token", token)?)),
                (Err(reason), None) => Err(reason),
            };
        }
        if let Some(token) = token {
            return Ok(Self::Fixed(bearer("token", token)?));
        }
        if let Some(name) = &user.username {
            let password = user.password.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
            return Ok(Self::Fixed(basic(name, password)?));
        }
        match provider {
            Some(provider) => Ok(Self::Fixed(bearer("auth-provider.config.id-token", provider.id_token()?)?)),
            None => Ok(Self::None),
        }
    }
}

/// `Bearer TOKEN`. `field` is the source of the token.
pub(crate) fn bearer(field: &str, token: &str) -> Result<HeaderValue, String> {
    header(field, &format!("Bearer {token}"))
}

/// `Bearer TOKEN` of a file, without the white space around the token.
pub(crate) fn from_file(file: &Path) -> Result<HeaderValue, String> {
    let bytes = named_file::read(file);
    let file = file.display();
    let bytes = bytes.map_err(|error| format!("cannot read tokenFile {file}: {error}"))?;
    let text = String::from_utf8_lossy(&bytes);
    match text.trim() {
        "" => Err(format!("tokenFile {file} is empty")),
        token => bearer(&format!("the token in tokenFile {file}"), token),
    }
}

fn basic(name: &str, password: &str) -> Result<HeaderValue, String> {
    header("username", &format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
}

/// The provider `oidc`, the only one that client-go still has.
struct Oidc<'a>(&'a AuthProviderConfig);

impl<'a> Oidc<'a> {
    fn of(provider: &'a AuthProviderConfig) -> Result<Self, String> {
        let name = &provider.name;
        if name != "oidc" {
            return Err(format!("auth-provider {name:?} is not supported; kubectl has removed all but oidc"));
        }
        let provider = Self(provider);
        match ["idp-issuer-url", "client-id"].into_iter().find(|key| provider.field(key).is_none()) {
            Some(key) => Err(format!("auth-provider.config has no {key}")),
            None => Ok(provider),
        }
    }

    fn field(&self, key: &str) -> Option<&'a str> {
        self.0.config.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn id_token(&self) -> Result<&'a str, String> {
        let renew = "kubectl renews it: run any command of kubectl on this context";
        let missing = || format!("auth-provider.config has no id-token; {renew}");
        let token = self.field("id-token").ok_or_else(missing)?;
        let is_valid = expiry(token).is_some_and(|expiry| Timestamp::now().as_second() < expiry);
        match is_valid {
            true => Ok(token),
            false => Err(format!("auth-provider.config.id-token has expired; {renew}")),
        }
    }
}

/// The time (`exp`) of a JWT.
fn expiry(token: &str) -> Option<i64> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&payload).ok()?;
    claims.get("exp")?.as_f64().map(|seconds| seconds as i64)
}

/// The server's URL without a name and a password, and the credential that Go's HTTP client creates
/// from them.
pub(super) fn without_userinfo(server: &str) -> (Cow<'_, str>, Option<HeaderValue>) {
    let Some((scheme, rest)) = server.split_once("://") else { return (server.into(), None) };
    let end = rest.find('/').unwrap_or(rest.len());
    let Some((userinfo, host)) = rest[..end].rsplit_once('@') else { return (server.into(), None) };
    let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let [name, password] = [name, password].map(|text| percent_decode_str(text).decode_utf8_lossy());
    (format!("{scheme}://{host}{}", &rest[end..]).into(), basic(&name, &password).ok())
}

/// The impersonation of a user, as header values.
pub(super) fn impersonation(user: &AuthInfo) -> Result<AuthInfo, String> {
    let single = [("as", &user.impersonate), ("as-uid", &user.impersonate_uid)];
    for (field, value) in single.iter().filter_map(|(field, value)| Some((field, value.as_ref()?))) {
        header(field, value)?;
    }
    for group in user.impersonate_groups.iter().flatten() {
        header("as-groups", group)?;
    }
    for (key, value) in user.impersonate_user_extra.iter().flatten() {
        value.iter().try_for_each(|value| header(&format!("as-user-extra[{key}]"), value).map(drop))?;
    }
    Ok(AuthInfo {
        impersonate: user.impersonate.clone(),
        impersonate_uid: user.impersonate_uid.clone(),
        impersonate_groups: user.impersonate_groups.clone(),
        impersonate_user_extra: user.impersonate_user_extra.clone(),
        ..AuthInfo::default()
    })
}

/// A valid header value. `field` is the field of the user.
fn header(field: &str, value: &str) -> Result<HeaderValue, String> {
    let mut header = HeaderValue::try_from(value).map_err(|_| {
        let kind =
            if value.ends_with(['\n', '\r']) { "ends in a line break" } else { "has a control character" };
        format!("{field} {kind}, which an HTTP header cannot have")
    })?;
    header.set_sensitive(true);
    Ok(header)
}
