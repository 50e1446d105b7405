//! A text looked for in bytes that come in pieces.
//!
//! Source: Knuth, Morris and Pratt, "Fast Pattern Matching in Strings", 1977: each byte is looked at once, and none
//! is kept.

/// The text, and how far to go back at each of its bytes.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Box<[u8]>,
    back: Box<[usize]>,
}

impl Text {
    pub fn new(bytes: &[u8]) -> Self {
        let bytes: Box<[u8]> = bytes.into();
        let mut back = vec![0; bytes.len()];
        let mut matched = 0;
        for at in 1..bytes.len() {
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = back[matched - 1];
            }
            matched += usize::from(bytes[at] == bytes[matched]);
            back[at] = matched;
        }
        Self { bytes, back: back.into() }
    }

    /// How much of the text the bytes so far end in, after these; all of it once it was found.
    #[inline]
    pub fn on(&self, mut matched: usize, piece: &[u8]) -> usize {
        if !self.is_found(matched) {
            self.find(&mut matched, piece);
        }
        matched
    }

    /// How many bytes of the piece there are up to the text's end; none: it does not end there. `matched` is less
    /// than all of it.
    #[inline]
    pub fn find(&self, matched: &mut usize, piece: &[u8]) -> Option<usize> {
        for (index, byte) in piece.iter().enumerate() {
            while *matched > 0 && *byte != self.bytes[*matched] {
                *matched = self.back[*matched - 1];
            }
            *matched += usize::from(*byte == self.bytes[*matched]);
            if self.is_found(*matched) {
                return Some(index + 1);
            }
        }
        None
    }

    /// Whether it was found.
    pub fn is_found(&self, matched: usize) -> bool {
        matched == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_wherever_the_pieces_are_cut() {
        let (text, body) = (Text::new(b"abcabd"), b"xxabcabcabdyy");
        for cut in 0..body.len() {
            let first = text.on(0, &body[..cut]);
            assert!(text.is_found(text.on(first, &body[cut..])), "{cut}");
            // Its last byte is the body's eleventh.
            let mut matched = text.on(0, &body[..cut.min(10)]);
            assert_eq!(text.find(&mut matched, &body[cut.min(10)..]), Some(11 - cut.min(10)));
        }
        assert!(!text.is_found(text.on(0, b"abcabcab")));
        assert!(Text::new(b"").is_found(0));
    }
}
