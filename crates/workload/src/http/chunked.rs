//! The chunked transfer coding, a byte at a time where it must be and a run at a time where it can.
//!
//! Source: RFC 9112, section 7.1.

use crate::session::Broken;

/// How far into a chunked body the reader is.
#[derive(Clone, Debug, Default)]
pub struct Chunked {
    place: Place,
    /// The current chunk's size while it is read, then what is left of its data.
    left: u64,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Place {
    /// Nothing of a size line yet.
    #[default]
    Start,
    Size,
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEndLine,
    /// At the start of a trailer line, or of the empty line that ends it all.
    TrailerStart,
    Trailer,
    LastLine,
}

impl Chunked {
    /// Takes bytes; when the body ends among them, how many of them it used.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        self.take_with(bytes, |_| {})
    }

    /// The same; what is of the body is shown.
    pub fn take_with(
        &mut self,
        bytes: &[u8],
        mut show: impl FnMut(&[u8]),
    ) -> Result<Option<usize>, Broken> {
        let mut at = 0;
        while at < bytes.len() {
            if self.place == Place::Data {
                let run = self.left.min((bytes.len() - at) as u64);
                self.left -= run;
                show(&bytes[at..at + run as usize]);
                at += run as usize;
                if self.left == 0 {
                    self.place = Place::DataEnd;
                }
                continue;
            }
            let byte = bytes[at];
            at += 1;
            self.place = match (self.place, byte) {
                (Place::Start | Place::Size, byte) if byte.is_ascii_hexdigit() => {
                    let digit = u64::from((byte as char).to_digit(16).unwrap_or(0));
                    let size = self.left.checked_mul(16).and_then(|size| size.checked_add(digit));
                    self.left = size.ok_or(Broken::BadChunk)?;
                    Place::Size
                }
                (Place::Size, b';' | b' ' | b'\t') => Place::Extension,
                (Place::Size | Place::Extension, b'\r') => Place::SizeEnd,
                (Place::Extension, byte) if byte != b'\n' => Place::Extension,
                (Place::SizeEnd, b'\n') if self.left == 0 => Place::TrailerStart,
                (Place::SizeEnd, b'\n') => Place::Data,
                (Place::DataEnd, b'\r') => Place::DataEndLine,
                (Place::DataEndLine, b'\n') => Place::Start,
                (Place::TrailerStart, b'\r') => Place::LastLine,
                (Place::TrailerStart | Place::Trailer, b'\n') => Place::TrailerStart,
                (Place::TrailerStart | Place::Trailer, _) => Place::Trailer,
                (Place::LastLine, b'\n') => return Ok(Some(at)),
                _ => return Err(Broken::BadChunk),
            };
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_the_last_chunk_and_says_what_it_used() {
        assert_eq!(Chunked::default().take(b"3\r\nabc\r\n0\r\n\r\nHTTP"), Ok(Some(13)));
    }

    #[test]
    fn a_size_that_overflows_is_refused() {
        assert_eq!(Chunked::default().take(b"fffffffffffffffff\r\n"), Err(Broken::BadChunk));
    }

    #[test]
    fn a_chunk_without_its_line_end_is_refused() {
        assert_eq!(Chunked::default().take(b"1\r\nab"), Err(Broken::BadChunk));
    }
}
