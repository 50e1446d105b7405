//! Whether bytes are a term that may be built: every announced length held to the bytes that are
//! there, before anything is allocated for it.
//!
//! `eetf` allocates what is announced, follows any nesting, unpacks what is compressed, and panics at
//! tags of the atom cache. A term that passed here can do none of it.
//! Source: erl_ext_dist, "External Term Format".

/// Deepest nesting. Chosen: decoding takes a few hundred bytes of stack a level.
const DEEPEST: usize = 512;

/// Terms in one message. Chosen: a term takes some 40 bytes here and may take one on the wire, so
/// this is 160 MB for a peer that sends 4 MB.
const MOST_TERMS: usize = 4 << 20;

/// Bytes of one integer. Chosen: to print one takes time by the square of its length.
const WIDEST_INTEGER: usize = 4096;

/// A term that is not built.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than announced.
    #[error("a term ends at byte {0}, before what it announces")]
    Short(usize),
    /// A tag that has no place here.
    #[error("tag {tag} at byte {at} is not one of a plain term")]
    Tag {
        /// The tag.
        tag: u8,
        /// Where.
        at: usize,
    },
    /// A field that can't be.
    #[error("{what} at byte {at}")]
    Field {
        /// What is wrong.
        what: &'static str,
        /// Where.
        at: usize,
    },
    /// More than is taken.
    #[error("{0}")]
    TooMuch(&'static str),
}

/// The length of the term that stands first, its version byte included. `spent` counts terms over
/// several calls.
pub(crate) fn term(bytes: &[u8], spent: &mut usize) -> Result<usize, Malformed> {
    let mut walk = Walk { bytes, at: 0 };
    let version = walk.byte()?;
    // Source: erl_ext_dist: 131; what is compressed (80) or has an atom cache (68) fails at its tag.
    if version != 131 {
        return Err(Malformed::Tag { tag: version, at: 0 });
    }
    // For each container that is open: terms still to come in it, bytes that follow them.
    let mut open: Vec<(usize, usize)> = vec![(1, 0)];
    while let Some((left, after)) = open.last_mut() {
        if *left == 0 {
            let after = *after;
            walk.skip(after)?;
            open.pop();
            continue;
        }
        *left -= 1;
        *spent += 1;
        if *spent > MOST_TERMS {
            return Err(Malformed::TooMuch("more terms in a message than linerate takes"));
        }
        let (terms, after) = walk.one()?;
        if terms > 0 {
            if open.len() == DEEPEST {
                return Err(Malformed::TooMuch("terms nested deeper than linerate follows"));
            }
            // Each has a byte at least.
            if terms > walk.left() {
                return Err(Malformed::Short(bytes.len()));
            }
            open.push((terms, after));
        }
    }
    Ok(walk.at)
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn skip(&mut self, n: usize) -> Result<(), Malformed> {
        if n > self.left() {
            return Err(Malformed::Short(self.bytes.len()));
        }
        self.at += n;
        Ok(())
    }

    fn number(&mut self, width: usize) -> Result<usize, Malformed> {
        let from = self.at;
        self.skip(width)?;
        Ok(self.bytes[from..self.at].iter().fold(0, |all, byte| all << 8 | usize::from(*byte)))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.number(1).map(|number| number as u8)
    }

    /// Goes over a term's own bytes. Returns how many terms it holds, and how many bytes come after
    /// those.
    fn one(&mut self) -> Result<(usize, usize), Malformed> {
        let at = self.at;
        let tag = self.byte()?;
        let plain = |walk: &mut Self, n: usize| walk.skip(n).map(|()| (0, 0));
        match tag {
            // SMALL_INTEGER, INTEGER, NEW_FLOAT, FLOAT, NIL.
            97 => plain(self, 1),
            98 => plain(self, 4),
            70 => plain(self, 8),
            99 => plain(self, 31),
            106 => Ok((0, 0)),
            // SMALL_ATOM and its UTF-8, ATOM and its UTF-8, STRING, BINARY.
            115 | 119 => self.number(1).and_then(|n| plain(self, n)),
            100 | 118 | 107 => self.number(2).and_then(|n| plain(self, n)),
            109 => self.number(4).and_then(|n| plain(self, n)),
            // BIT_BINARY: bits of the last byte.
            77 => {
                let n = self.number(4)?;
                if !(1..=8).contains(&self.byte()?) {
                    return Err(Malformed::Field { what: "bits of a byte beyond 1 to 8", at });
                }
                plain(self, n)
            }
            // SMALL_BIG, LARGE_BIG: after the length a sign.
            110 | 111 => {
                let n = self.number(if tag == 110 { 1 } else { 4 })?;
                if n > WIDEST_INTEGER {
                    return Err(Malformed::TooMuch("an integer wider than linerate reads"));
                }
                plain(self, 1 + n)
            }
            // SMALL_TUPLE, LARGE_TUPLE, LIST with its tail, MAP.
            104 => Ok((self.number(1)?, 0)),
            105 => Ok((self.number(4)?, 0)),
            108 => Ok((self.number(4)? + 1, 0)),
            116 => Ok((self.number(4)? * 2, 0)),
            // REFERENCE, PORT, NEW_PORT, V4_PORT, PID, NEW_PID: the node's name, then numbers.
            101 | 102 => Ok((1, 5)),
            89 => Ok((1, 8)),
            120 | 88 => Ok((1, 12)),
            103 => Ok((1, 9)),
            // NEW_REFERENCE, NEWER_REFERENCE: as many words as announced.
            114 => Ok((1, 1 + 4 * self.number(2)?)),
            90 => Ok((1, 4 + 4 * self.number(2)?)),
            // EXPORT: module, function, arity.
            113 => Ok((3, 0)),
            // FUN: pid, module, index, uniq, and its free variables.
            117 => Ok((4 + self.number(4)?, 0)),
            // NEW_FUN: size, arity, uniq, index, then module, two numbers, pid, free variables.
            112 => {
                self.skip(4 + 1 + 16 + 4)?;
                Ok((4 + self.number(4)?, 0))
            }
            _ => Err(Malformed::Tag { tag, at }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{Term, atom, binary, integer, list, map, tuple};

    fn length(bytes: &[u8]) -> Result<usize, Malformed> {
        term(bytes, &mut 0)
    }

    fn written(term: &Term) -> Vec<u8> {
        let mut bytes = Vec::new();
        term.encode(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_can_be_written_is_as_long_as_it_is_and_no_prefix_of_it_is_a_term() {
        let term = tuple(vec![
            atom("größe"),
            list(vec![integer(-1), integer(1 << 40), binary(vec![7; 300])]),
            map(vec![(atom("a"), list(vec![]))]),
        ]);
        let bytes = written(&term);
        assert_eq!(length(&bytes), Ok(bytes.len()));
        for cut in 0..bytes.len() {
            assert!(length(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn announced_lengths_without_their_bytes_are_refused() {
        // A list, a tuple, a map, a binary, a large integer, a fun of 2^32 - 1 of whatever.
        for tag in [108, 105, 116, 109, 111, 117] {
            assert!(length(&[131, tag, 255, 255, 255, 255, 106]).is_err(), "{tag}");
        }
    }

    #[test]
    fn what_would_panic_or_unpack_is_refused() {
        // The atom cache, a distribution header, a compressed term, a bit of 9.
        assert!(matches!(length(&[131, 82, 0]), Err(Malformed::Tag { tag: 82, at: 1 })));
        assert!(matches!(length(&[131, 68, 0]), Err(Malformed::Tag { tag: 68, at: 1 })));
        assert!(matches!(length(&[131, 80, 0, 0, 0, 9]), Err(Malformed::Tag { tag: 80, at: 1 })));
        assert!(matches!(length(&[131, 77, 0, 0, 0, 1, 9, 0]), Err(Malformed::Field { .. })));
    }

    #[test]
    fn nesting_has_an_end() {
        let mut bytes = vec![131];
        bytes.extend([104, 1].repeat(100_000));
        bytes.push(106);
        assert!(matches!(length(&bytes), Err(Malformed::TooMuch(_))));
    }
}
