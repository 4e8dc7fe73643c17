//! Parses the subject of a certificate request (PKCS #10, RFC 2986), and accepts only the form that agents
//! use. A kube-apiserver, the signer and Karmada's approver must not be able to read another subject in it.
//!
//! The PEM is one block without headers. The subject has one common name and one organization, each in its
//! own attribute, in ASCII. Attributes of the request are refused, because they can name other subjects and
//! extensions.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::asn1_rs::{Any, Class, FromDer};

/// The subject of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Subject {
    pub common_name: String,
    pub organization: String,
}

impl Subject {
    /// Parses the only block of this PEM.
    ///
    /// # Errors
    /// If the request contains anything besides one common name, one organization and a key.
    pub fn of_pem(pem: &[u8]) -> Result<Self, Unreadable> {
        Self::of_der(&der(pem)?)
    }

    fn of_der(der: &[u8]) -> Result<Self, Unreadable> {
        let mut request = Reader(der);
        let mut parts = Reader(request.constructed(SEQUENCE)?);
        request.end()?;
        let mut info = Reader(parts.constructed(SEQUENCE)?);
        parts.constructed(SEQUENCE)?;
        parts.primitive(BIT_STRING)?;
        parts.end()?;
        if info.primitive(INTEGER)? != [0] {
            return Err(Unreadable::Structure);
        }
        let subject = Self::of_name(info.constructed(SEQUENCE)?)?;
        info.constructed(SEQUENCE)?;
        let attributes = info.next(Class::ContextSpecific, 0, true)?;
        info.end()?;
        if attributes.is_empty() { Ok(subject) } else { Err(Unreadable::Attributes) }
    }

    fn of_name(name: &[u8]) -> Result<Self, Unreadable> {
        let mut names = Reader(name);
        let (mut common_name, mut organization) = (None, None);
        while !names.0.is_empty() {
            let mut set = Reader(names.constructed(SET)?);
            let mut attribute = Reader(set.constructed(SEQUENCE)?);
            set.end().map_err(|_| Unreadable::Subject)?;
            let kind = attribute.primitive(OBJECT_IDENTIFIER)?;
            let value = attribute.text()?;
            attribute.end()?;
            let place = match kind {
                COMMON_NAME => &mut common_name,
                ORGANIZATION => &mut organization,
                _ => return Err(Unreadable::Subject),
            };
            if place.replace(value).is_some() {
                return Err(Unreadable::Subject);
            }
        }
        match (common_name, organization) {
            (Some(common_name), Some(organization)) => Ok(Self { common_name, organization }),
            _ => Err(Unreadable::Subject),
        }
    }
}

/// Whether a request could contain this name, in any encoding that some reader accepts. The names of agents
/// are ASCII, which wider encodings pad with zeros.
pub fn could_name(pem: &[u8], name: &str) -> bool {
    let Ok(der) = der(pem) else { return true };
    let bytes: Vec<u8> = der.into_iter().filter(|byte| *byte != 0).collect();
    bytes.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
}

/// Why a request cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the request is not one PEM block CERTIFICATE REQUEST without headers")]
    Pem,
    #[error("the request is no PKCS #10 certificate request in DER")]
    Structure,
    #[error("the subject of the request is not one common name and one organization")]
    Subject,
    #[error("the request has attributes, which may ask for other names or extensions")]
    Attributes,
    #[error("the request is too large")]
    Size,
}

fn der(pem: &[u8]) -> Result<Vec<u8>, Unreadable> {
    if pem.len() > MAX_PEM {
        return Err(Unreadable::Size);
    }
    let text = std::str::from_utf8(pem).map_err(|_| Unreadable::Pem)?.trim_ascii();
    let body = text.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END)).ok_or(Unreadable::Pem)?;
    // Some readers end a line at a carriage return alone and others skip it. The lines of another block, or a
    // header, contain characters outside base64.
    let body = body.replace("\r\n", "\n");
    if !(body.starts_with('\n') && body.ends_with('\n')) {
        return Err(Unreadable::Pem);
    }
    let body: String = body.chars().filter(|character| *character != '\n').collect();
    STANDARD.decode(body).map_err(|_| Unreadable::Pem)
}

/// The unread rest of a DER value (X.690).
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn next(&mut self, class: Class, tag: u32, constructed: bool) -> Result<&'a [u8], Unreadable> {
        let (rest, value) = Any::from_der(self.0).map_err(|_| Unreadable::Structure)?;
        if value.class() != class || value.tag().0 != tag || value.header.is_constructed() != constructed {
            return Err(Unreadable::Structure);
        }
        self.0 = rest;
        Ok(value.data)
    }

    fn constructed(&mut self, tag: u32) -> Result<&'a [u8], Unreadable> {
        self.next(Class::Universal, tag, true)
    }

    fn primitive(&mut self, tag: u32) -> Result<&'a [u8], Unreadable> {
        self.next(Class::Universal, tag, false)
    }

    /// A PrintableString or a UTF8String of printable ASCII.
    fn text(&mut self) -> Result<String, Unreadable> {
        let bytes = self.primitive(UTF8_STRING).or_else(|_| self.primitive(PRINTABLE_STRING));
        let bytes = bytes.map_err(|_| Unreadable::Subject)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Unreadable::Subject)?;
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain { Ok(text.to_owned()) } else { Err(Unreadable::Subject) }
    }

    fn end(&self) -> Result<(), Unreadable> {
        if self.0.is_empty() { Ok(()) } else { Err(Unreadable::Structure) }
    }
}

const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const END: &str = "-----END CERTIFICATE REQUEST-----";
/// A request with an RSA key of 16,384 bits has 5 KiB.
const MAX_PEM: usize = 16 * 1024;
const INTEGER: u32 = 2;
const BIT_STRING: u32 = 3;
const OBJECT_IDENTIFIER: u32 = 6;
const UTF8_STRING: u32 = 12;
const SEQUENCE: u32 = 16;
const SET: u32 = 17;
const PRINTABLE_STRING: u32 = 19;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// 2.5.4.10
const ORGANIZATION: &[u8] = &[0x55, 4, 10];

#[cfg(test)]
pub(super) mod tests;
