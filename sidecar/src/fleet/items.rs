//! Splits the JSON of a list into its items as its bytes arrive. At most one item is in memory. Everything but the items
//! is kept, within a bound, and parsed at the end.

/// Maximum memory for a part of a member's response.
pub const MAX_OBJECT: usize = 4 * 1024 * 1024;

/// A list that arrives in pieces.
#[derive(Debug, Default)]
pub struct Items {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The field of the list whose value is being read.
    key: Vec<u8>,
    /// Whether the next string at the top is a field's name.
    awaits_key: bool,
    reads_key: bool,
    /// Whether the elements of the list are being read.
    in_items: bool,
    begun: bool,
    item: Vec<u8>,
    /// The list without its items.
    outer: Vec<u8>,
}

/// Why a member's answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("an object is larger than {} MiB", MAX_OBJECT / 1024 / 1024)]
    TooLarge,
    #[error("the answer is not the JSON of a list")]
    NotAList,
    #[error("the answer ended early")]
    Early,
    #[error("the memory for objects that are not complete or not sent is used up")]
    NoMemory,
}

impl Items {
    /// Takes a piece of the list, and passes on each item that it completes.
    pub fn push<E: From<Error>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&Self, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for byte in piece {
            if self.in_items && self.depth == 2 && !self.in_string && matches!(byte, b',' | b']') {
                let item = std::mem::take(&mut self.item);
                if !item.trim_ascii().is_empty() {
                    each(self, item.trim_ascii())?;
                }
                self.item = item;
                self.item.clear();
                if *byte == b']' {
                    self.in_items = false;
                    self.depth = 1;
                    self.outer.push(b']');
                }
                continue;
            }
            let kept = if self.in_items { &mut self.item } else { &mut self.outer };
            if kept.len() >= MAX_OBJECT {
                return Err(Error::TooLarge.into());
            }
            kept.push(*byte);
            self.step(*byte)?;
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) -> Result<(), Error> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    self.reads_key = false;
                    return Ok(());
                }
                _ => {}
            }
            if self.reads_key {
                self.key.push(byte);
            }
            return Ok(());
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 && self.awaits_key {
                    self.key.clear();
                    self.reads_key = true;
                }
            }
            b':' if self.depth == 1 => self.awaits_key = false,
            b',' if self.depth == 1 => self.awaits_key = true,
            b'{' | b'[' => {
                if self.depth == 0 && (self.begun || byte == b'[') {
                    return Err(Error::NotAList);
                }
                self.begun = true;
                self.depth += 1;
                self.awaits_key = self.depth == 1;
                self.in_items |= byte == b'[' && self.depth == 2 && matches!(&*self.key, b"items" | b"rows");
            }
            b'}' | b']' => self.depth = self.depth.checked_sub(1).ok_or(Error::NotAList)?,
            byte if self.depth == 0 && !byte.is_ascii_whitespace() => return Err(Error::NotAList),
            _ => {}
        }
        Ok(())
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.item.capacity() + self.outer.capacity()
    }

    /// The fields before the items.
    pub fn before_items(&self) -> Option<serde_json::Value> {
        let mut text = self.outer.clone();
        text.extend_from_slice(b"]}");
        serde_json::from_slice(&text).ok()
    }

    /// The list without its items, once it is complete.
    pub fn finish(&self) -> Result<serde_json::Value, Error> {
        if !self.begun || self.depth > 0 || self.in_string {
            return Err(Error::Early);
        }
        serde_json::from_slice(&self.outer).map_err(|_| Error::NotAList)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items and the rest of a list that arrives in pieces of a length.
    fn split(text: &str, length: usize) -> Result<(Vec<String>, String), Error> {
        let (mut items, mut list) = (Vec::new(), Items::default());
        for piece in text.as_bytes().chunks(length) {
            list.push(piece, |_, item| {
                items.push(String::from_utf8(item.to_vec()).unwrap());
                Ok::<_, Error>(())
            })?;
        }
        Ok((items, list.finish()?.to_string()))
    }

    #[test]
    fn items_are_split_wherever_the_pieces_end() {
        let list = r#" {"kind":"PodList","metadata":{"items":[9],"x":"]"},"items":[ {"a":"],\"}"} , [1,2],3],"z":[1]} "#;
        for length in 1..list.len() {
            let (items, rest) = split(list, length).unwrap();
            assert_eq!(items, [r#"{"a":"],\"}"}"#, "[1,2]", "3"], "{length}");
            assert_eq!(rest, r#"{"items":[],"kind":"PodList","metadata":{"items":[9],"x":"]"},"z":[1]}"#);
        }
        for empty in [r#"{"items":[]}"#, r#"{"items":[ ]}"#, r#"{"items":null}"#, r#"{"rows":"items"}"#] {
            assert_eq!(split(empty, 3).unwrap().0, Vec::<String>::new(), "{empty}");
        }
    }

    #[test]
    fn cut_list_is_an_error() {
        let list = r#"{"kind":"PodList","items":[{"a":1},{"a":2}],"metadata":{}}"#;
        for length in 0..list.len() {
            assert!(split(&list[..length], 7).is_err(), "{length}");
        }
        for other in ["[]", "1", "{}{}", "{}]", r#"{"items":[1]}}"#] {
            assert!(split(other, 2).is_err(), "{other}");
        }
    }

    #[test]
    fn endless_object_is_refused_within_the_bound() {
        for start in [r#"{"items":[{"a":""#, r#"{"kind":""#, r#"{"items":[["#] {
            let mut list = Items::default();
            let mut push = |bytes: &[u8]| list.push(bytes, |_, _| Ok::<_, Error>(()));
            push(start.as_bytes()).unwrap();
            let failed = (0..).find_map(|_| push(&[b'a'; 65536]).err());
            assert_eq!(failed, Some(Error::TooLarge));
            assert!(list.item.capacity() + list.outer.capacity() <= 3 * MAX_OBJECT);
        }
    }
}
