//! The text of a message: its token, and padding to its size.

use linerate_model::Bytes;

use crate::session::Token;

/// The longest text of a message. Unit: bytes.
///
/// Chosen: 64 KiB, what chat servers commonly take at most.
pub const LONGEST: usize = 1 << 16;

const MARK: &[u8] = b"t=";
const DIGITS: usize = 16;

/// Appends the text of a message: letters, digits and dots, so that no protocol needs to escape it.
pub(crate) fn write(token: Token, size: Bytes, out: &mut Vec<u8>) {
    let least = MARK.len() + DIGITS;
    let size = usize::try_from(size.0).unwrap_or(LONGEST).clamp(least, LONGEST);
    out.extend_from_slice(MARK);
    hex(token, out);
    out.resize(out.len() + size - least, b'.');
}

/// The token of a text, if it is one of ours.
pub(crate) fn read(text: &[u8]) -> Option<Token> {
    let (token, padding) = text.strip_prefix(MARK)?.split_at_checked(DIGITS)?;
    padding.iter().all(|byte| *byte == b'.').then(|| from_hex(token)).flatten()
}

/// Appends a token as 16 digits.
pub(crate) fn hex(token: Token, out: &mut Vec<u8>) {
    let digit = |shift: usize| b"0123456789abcdef"[(token.0 >> shift) as usize & 15];
    out.extend((0..DIGITS).rev().map(|place| digit(4 * place)));
}

/// A token of 16 digits.
pub(crate) fn from_hex(digits: &[u8]) -> Option<Token> {
    if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok().map(Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_long_as_asked_and_gives_its_token_again() {
        for (asked, long) in [(0, 18), (18, 18), (100, 100), (u64::MAX, LONGEST)] {
            let mut text = Vec::new();
            write(Token(0xfeed_0000_0000_beef), Bytes(asked), &mut text);
            assert_eq!(text.len(), long);
            assert_eq!(read(&text), Some(Token(0xfeed_0000_0000_beef)));
        }
    }

    #[test]
    fn a_text_of_somebody_else_has_no_token() {
        for text in
            ["", "t=", "hello", "t=000000000000000", "t=000000000000000g", "t=0000000000000001 x"]
        {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
