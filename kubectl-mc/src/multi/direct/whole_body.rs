//! Reads a whole response up to a limit, compressed or not (RFC 9110, section 8.4). As in
//! client-go, answers to all requests except streams may be compressed; kube-apiserver compresses
//! answers of 128 KiB and more. The limit counts the bytes after decompression, so a member cannot
//! fill the memory with a small answer.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, header};

use super::failure::MemberFailure;

/// The value of `Accept-Encoding`.
pub(super) const ENCODING: HeaderValue = HeaderValue::from_static("gzip");

/// A partly received response.
pub(super) enum WholeBody {
    Plain(Limited),
    Gzip(Box<MultiGzDecoder<Limited>>),
}

impl WholeBody {
    /// An empty body with the encoding that the headers name.
    pub(super) fn new(headers: &HeaderMap, most: usize) -> Result<Self, MemberFailure> {
        let limited = Limited { data: Vec::new(), most, is_exceeded: false };
        let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
        match (encodings.next().map(HeaderValue::as_bytes), encodings.next()) {
            (None, _) => Ok(Self::Plain(limited)),
            (Some(one), None) if one.eq_ignore_ascii_case(b"identity") => Ok(Self::Plain(limited)),
            (Some(one), None) if one.eq_ignore_ascii_case(b"gzip") => {
                Ok(Self::Gzip(Box::new(MultiGzDecoder::new(limited))))
            }
            _ => Err(MemberFailure::Unreadable("it has an encoding that was not requested".into())),
        }
    }

    /// Adds data as it arrives.
    pub(super) fn push(&mut self, data: &[u8]) -> Result<(), MemberFailure> {
        let written = match self {
            Self::Plain(limited) => limited.write_all(data),
            Self::Gzip(decoder) => decoder.write_all(data),
        };
        written.map_err(|error| self.failure(&error))
    }

    /// The whole body. A body that ends before its compressed data is an error.
    pub(super) fn finish(mut self) -> Result<Bytes, MemberFailure> {
        let finished = match &mut self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
        };
        finished.map_err(|error| match self.failure(&error) {
            MemberFailure::Unreadable(reason) if !self.limited().is_exceeded => {
                MemberFailure::BrokenOff(reason)
            }
            other => other,
        })?;
        Ok(std::mem::take(&mut self.limited_mut().data).into())
    }

    fn failure(&self, error: &io::Error) -> MemberFailure {
        let limited = self.limited();
        let reason = match limited.is_exceeded {
            true => format!("it is longer than {} bytes", limited.most),
            false => format!("invalid compressed data: {error}"),
        };
        MemberFailure::Unreadable(reason.into())
    }

    fn limited(&self) -> &Limited {
        match self {
            Self::Plain(limited) => limited,
            Self::Gzip(decoder) => decoder.get_ref(),
        }
    }

    fn limited_mut(&mut self) -> &mut Limited {
        match self {
            Self::Plain(limited) => limited,
            Self::Gzip(decoder) => decoder.get_mut(),
        }
    }
}

/// Decompressed data up to a limit.
pub(super) struct Limited {
    data: Vec<u8>,
    most: usize,
    is_exceeded: bool,
}

impl Write for Limited {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.len() > self.most - self.data.len() {
            self.is_exceeded = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.data.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// A body that arrives in parts of this size.
    fn read(encoding: &[&'static str], body: &[u8], most: usize, part: usize) -> Result<Bytes, String> {
        let mut headers = HeaderMap::new();
        for one in encoding {
            headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(one));
        }
        let read = || {
            let mut whole = WholeBody::new(&headers, most)?;
            body.chunks(part).try_for_each(|data| whole.push(data))?;
            whole.finish()
        };
        read().map_err(|failure| failure.to_string())
    }

    #[test]
    fn compressed_answer_is_read_in_any_parts() {
        let text = b"{\"kind\": \"PodList\"}".repeat(1000);
        for part in [1, 7, 1 << 20] {
            assert_eq!(read(&["gzip"], &gzip(&text), 1 << 20, part).unwrap(), text);
            assert_eq!(read(&["identity"], &text, 1 << 20, part).unwrap(), text);
            assert_eq!(read(&[], &text, 1 << 20, part).unwrap(), text);
        }
        // Several members of a file are one text (RFC 1952, section 2.2).
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(&["GZIP"], &two, 100, 5).unwrap(), "one two");
    }

    #[test]
    fn fault_81_cut_compressed_answer_is_a_failure() {
        let whole = gzip(&b"some text ".repeat(1000));
        for end in 0..whole.len() {
            let error = read(&["gzip"], &whole[..end], 1 << 20, 64).unwrap_err();
            assert!(error.starts_with("the answer ended early: "), "{end}: {error}");
        }
    }

    #[test]
    fn fault_81_limit_counts_decompressed_bytes() {
        let bomb = gzip(&vec![0; 10_000_000]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        let error = read(&["gzip"], &bomb, 1_000_000, 1 << 20).unwrap_err();
        assert_eq!(error, "cannot read the answer: it is longer than 1000000 bytes");
        assert!(read(&["gzip"], &bomb, 10_000_000, 1 << 20).is_ok());
        assert!(read(&[], &[0; 11], 10, 3).unwrap_err().contains("longer than 10 bytes"));
    }

    #[test]
    fn other_encodings_and_damaged_data_are_failures() {
        for encoding in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &[""]] {
            let error = read(encoding, &gzip(b"text"), 100, 100).unwrap_err();
            assert!(error.contains("an encoding that was not requested"), "{error}");
        }
        let mut damaged = gzip(&b"text ".repeat(100));
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        assert!(read(&["gzip"], &damaged, 1000, 10).is_err());
        assert!(read(&["gzip"], b"{\"kind\": \"PodList\"}", 1000, 10).is_err());
        assert!(read(&["gzip"], &[gzip(b"text"), b"more".to_vec()].concat(), 1000, 10).is_err());
    }
}
