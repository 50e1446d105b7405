//! Erlang terms: made in a word, and read without ceremony.

use std::borrow::Cow;
use std::fmt::{self, Write};

pub use erl_dist::term::{
    Atom, BigInteger, Binary, ExternalFun, FixInteger, List, Map, Pid, Reference, Term, Tuple,
};

/// An atom.
pub fn atom(name: &str) -> Term {
    Atom::from(name).into()
}

/// A binary.
pub fn binary(bytes: impl Into<Vec<u8>>) -> Term {
    Binary::from(bytes.into()).into()
}

/// An integer.
pub fn integer(number: i64) -> Term {
    match i32::try_from(number) {
        // Not below zero: eetf 0.11 takes a list of -7 for a string and sends 249.
        Ok(small @ 0..) => FixInteger::from(small).into(),
        _ => BigInteger::from(number).into(),
    }
}

/// A string, which is a list of characters. (eetf's own cuts at 64 KiB and sends bytes.)
pub fn string(text: &str) -> Term {
    list(text.chars().map(|letter| integer(i64::from(u32::from(letter)))).collect())
}

/// A list.
pub fn list(elements: Vec<Term>) -> Term {
    List::from(elements).into()
}

/// A tuple.
pub fn tuple(elements: Vec<Term>) -> Term {
    Tuple::from(elements).into()
}

/// A map.
pub fn map(pairs: Vec<(Term, Term)>) -> Term {
    Map { map: pairs.into_iter().collect() }.into()
}

/// The name of an atom.
pub fn as_atom(term: &Term) -> Option<&str> {
    match term {
        Term::Atom(atom) => Some(&atom.name),
        _ => None,
    }
}

/// A number that is not negative.
pub fn as_u64(term: &Term) -> Option<u64> {
    match term {
        Term::FixInteger(number) => u64::try_from(number.value).ok(),
        Term::BigInteger(number) => u64::try_from(&number.value).ok(),
        _ => None,
    }
}

/// The elements of a tuple.
pub fn as_tuple(term: &Term) -> Option<&[Term]> {
    match term {
        Term::Tuple(tuple) => Some(&tuple.elements),
        _ => None,
    }
}

/// The elements of a proper list. Erlang sends lists of small integers as strings.
pub fn as_list(term: &Term) -> Option<Cow<'_, [Term]>> {
    match term {
        Term::List(list) => Some(Cow::Borrowed(&list.elements)),
        Term::ByteList(bytes) => {
            Some(bytes.bytes.iter().map(|byte| integer(i64::from(*byte))).collect())
        }
        _ => None,
    }
}

/// The bytes of a binary.
pub fn as_bytes(term: &Term) -> Option<&[u8]> {
    match term {
        Term::Binary(binary) => Some(&binary.bytes),
        _ => None,
    }
}

/// A binary, a string or an atom as text.
pub fn as_text(term: &Term) -> Option<String> {
    match term {
        Term::Binary(binary) => Some(String::from_utf8_lossy(&binary.bytes).into_owned()),
        // Latin-1: each byte is the character of its number.
        Term::ByteList(bytes) => Some(bytes.bytes.iter().map(|byte| char::from(*byte)).collect()),
        Term::Atom(atom) => Some(atom.name.clone()),
        Term::List(list) => list
            .elements
            .iter()
            .map(|letter| as_u64(letter).and_then(|n| char::from_u32(u32::try_from(n).ok()?)))
            .collect(),
        _ => None,
    }
}

/// What a map has under an atom.
pub fn of_map<'a>(term: &'a Term, key: &str) -> Option<&'a Term> {
    match term {
        Term::Map(map) => map.map.get(&atom(key)),
        _ => None,
    }
}

/// A term as Erlang writes it, cut where it gets long; without what a terminal obeys, for it may be of a
/// stranger.
pub fn in_words(term: &Term) -> String {
    let mut words = Words { text: String::new(), left: LONGEST };
    if write!(words, "{term}").is_err() {
        words.text.push('…');
    }
    words.text
}

// Chosen: enough of a reason to know it by.
const LONGEST: usize = 300;

struct Words {
    text: String,
    left: usize,
}

impl Write for Words {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for letter in more.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(if letter.is_control() { ' ' } else { letter });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_from_whatever_erlang_makes_of_it() {
        let string = Term::from("http".to_owned());
        let wide = list(vec![integer(0x20ac)]);
        let terms = [binary("http"), string, atom("http"), wide, list(vec![])];
        let texts: Vec<_> = terms.iter().map(as_text).collect();
        let of = |text: &str| Some(text.to_owned());
        assert_eq!(texts, [of("http"), of("http"), of("http"), of("€"), of("")]);
        assert_eq!(as_text(&integer(1)), None);
    }

    #[test]
    fn numbers_are_read_up_to_64_bits_and_not_below_zero() {
        assert_eq!(as_u64(&integer(1 << 40)), Some(1 << 40));
        assert_eq!(as_u64(&BigInteger::from(u64::MAX).into()), Some(u64::MAX));
        assert_eq!(as_u64(&integer(-1)), None);
    }

    #[test]
    fn lists_of_numbers_and_strings_are_sent_as_what_they_are() {
        let sent = |term: Term| {
            let mut bytes = Vec::new();
            term.encode(&mut bytes).unwrap();
            Term::decode(&bytes[..]).unwrap()
        };
        let Term::List(negative) = sent(list(vec![integer(-7)])) else { panic!("a string") };
        assert_eq!(negative.elements[0].to_string(), "-7");
        let long = "é€".repeat(40_000);
        assert_eq!(as_text(&sent(string(&long))), Some(long));
    }

    #[test]
    fn long_terms_are_cut_and_escape_sequences_too() {
        assert_eq!(in_words(&atom("a\x1b[2Jb\nc")), "'a [2Jb c'");
        let words = in_words(&list(vec![atom("abcdefghij"); 100]));
        assert_eq!(words.chars().count(), LONGEST + 1);
    }
}
