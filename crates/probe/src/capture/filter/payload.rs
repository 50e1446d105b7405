//! What a packet's payload begins with, as parts of the filter's program: answers that refuse, requests in TLS.

use linerate_evidence::sources::capture::Record;
use linerate_evidence::sources::capture::refusal::{
    Attribute, LOOKED_AT, PASSED, PASSED_AT_MOST, PASSED_LENGTH, SIGNS, SOUGHT, STANZAS,
    STEPS_AT_ONCE, Says, Sign, Word,
};

use super::{HEADERS, Look, Program, To, code};

/// An answer shorter than [`LOOKED_AT`] is compared with signs of one or two words at its beginning, and with those of what lets
/// a client in, which have no text. Unit: bytes.
pub(super) const SHORT: u32 = 8;
const SHORTEST: u32 = 4;

impl Program {
    /// X becomes where the payload begins, A its length.
    fn payload(&mut self) {
        use code::*;
        // Past the TCP header, whose length is in its own words.
        self.then(LOAD_MEMORY, HEADERS);
        self.then(SUBTRACT, 20);
        self.then(TO_X, 0);
        self.then(LOAD_BYTE_AT_X, 12);
        self.then(SHIFT_RIGHT, 4);
        self.then(SHIFT_LEFT, 2);
        self.then(ADD_X, 0);
        self.then(TO_X, 0);
        self.then(LOAD_LENGTH, 0);
        self.then(SUBTRACT_X, 0);
    }

    /// Returns the 20 bytes alone where the TCP header has no options: a byte more would be of the payload.
    pub(super) fn has_options(&mut self) {
        use code::*;
        self.payload();
        self.then(LOAD_MEMORY, HEADERS);
        self.then(SUBTRACT_X, 0);
        self.test(IF_EQUAL, 0, To::Next, To::Next);
        if let Some(last) = self.code.last_mut() {
            last.jf = 2;
        }
        self.then(LOAD_MEMORY, HEADERS);
        self.then(RETURN_A, 0);
    }

    /// Continues behind it where a request begins with no record of TLS, else at its kind.
    pub(super) fn records(&mut self) {
        use code::*;
        let [handshake, other] =
            [Record::Handshake, Record::Other].map(|record| To::More(record.more()));
        self.payload();
        // A load beyond the packet would end the program.
        self.test(IF_AT_LEAST, 2, To::Next, To::Plain);
        self.then(LOAD_HALF_AT_X, 0);
        self.test(IF_EQUAL, u32::from(Record::HANDSHAKE), handshake, To::Next);
        for head in Record::OTHERS {
            self.test(IF_EQUAL, u32::from(head), other, To::Next);
        }
        self.test(IF_EQUAL, u32::from(Record::CHANGE), To::Next, To::Plain);
        self.then(LOAD_LENGTH, 0);
        self.then(SUBTRACT_X, 0);
        self.test(IF_AT_LEAST, Record::CHANGE_LENGTH + 1, To::Next, other);
        self.then(LOAD_BYTE_AT_X, Record::CHANGE_LENGTH);
        self.test(IF_EQUAL, u32::from(Record::HANDSHAKE_TYPE), handshake, other);
    }

    /// Continues at [`To::Plain`] where an answer says neither no nor welcome, else at its own kind.
    pub(super) fn refusals(&mut self, look: Look) {
        use code::*;
        self.payload();
        self.test_far(IF_AT_LEAST, LOOKED_AT, To::Long);
        // A load beyond the packet would end the program: a short answer is compared with short signs.
        self.test(IF_AT_LEAST, SHORT, To::Short, To::Next);
        self.test_far(IF_AT_LEAST, SHORTEST, To::Shortest);
        self.jump(To::Plain);
        // Older kernels have no room for all.
        let has_room = |sign: &Sign| look == Look::Whole || sign.length() > SHORT;
        for (length, place) in [(SHORT, To::Short), (SHORTEST, To::Shortest)] {
            self.here(place);
            self.first_words(|sign| sign <= length);
            match look {
                _ if length == SHORT => {
                    self.others(|sign| sign.is_short_welcome() && has_room(sign))
                }
                Look::Whole => self.others(|sign| sign.length() <= SHORT),
                _ => {}
            }
            self.jump(To::Plain);
        }
        self.here(To::Long);
        self.pass_messages();
        self.here(To::Signs);
        self.first_words(|_| true);
        for begin in STANZAS.into_iter().filter(|_| look.into_stanzas().is_some()) {
            self.test_far(IF_EQUAL, u32::from_be_bytes(begin), To::Stanza);
        }
        let is_rest = |sign: &&Sign| !sign.has_first_word() && !sign.is_short_welcome();
        for sign in SIGNS.iter().filter(is_rest).filter(|sign| has_room(sign)) {
            self.rest(sign.words, To::More(sign.says.more()), To::Next);
        }
        self.jump(To::Plain);
        if let Some(up_to) = look.into_stanzas() {
            self.here(To::Stanza);
            let mut otherwise = To::Plain;
            for (number, ((attribute, refusal), up_to)) in SOUGHT.iter().zip(up_to).enumerate() {
                self.search(number, attribute, up_to, otherwise);
                otherwise = To::More(Says::No(*refusal).more());
            }
            self.jump(otherwise);
        }
        let shared = SIGNS.iter().enumerate().filter(|(_, sign)| sign.words.len() > 1);
        for (index, sign) in shared.filter(|(_, sign)| sign.has_first_word()) {
            self.here(To::Sign(index));
            let same = |other: &usize| SIGNS[*other].words[0] == sign.words[0];
            let next = (index + 1..SIGNS.len()).find(same).map_or(To::Plain, To::Sign);
            self.rest(&sign.words[1..], To::More(sign.says.more()), next);
        }
    }

    /// Moves X past the messages that may stand before an error, as long as [`LOOKED_AT`] bytes are left.
    fn pass_messages(&mut self) {
        use code::*;
        for number in 0..PASSED_AT_MOST {
            self.then(LOAD_BYTE_AT_X, 0);
            for kind in PASSED {
                self.test(IF_EQUAL, u32::from(*kind), To::Message(number), To::Next);
            }
            self.jump(To::Signs);
            self.here(To::Message(number));
            self.then(LOAD_WORD_AT_X, 1);
            self.test_far(IF_AT_LEAST, PASSED_LENGTH, To::Signs);
            self.then(ADD, 1);
            self.then(ADD_X, 0);
            self.then(TO_X, 0);
            self.then(LOAD_LENGTH, 0);
            self.then(SUBTRACT_X, 0);
            self.then(SUBTRACT, LOOKED_AT);
            // Below zero: too few are left, or it ends beyond the packet.
            self.test_far(IF_AT_LEAST, 1 << 31, To::Plain);
        }
    }

    /// Looks for it in a stanza from X on, four bytes after the other: continues behind this with X where it is, or elsewhere where it is
    /// not found.
    fn search(&mut self, number: usize, attribute: &Attribute, looked_at: u32, otherwise: To) {
        use code::*;
        for words in (0..looked_at / 4).step_by(STEPS_AT_ONCE as usize) {
            self.then(LOAD_LENGTH, 0);
            self.then(SUBTRACT_X, 0);
            // And a word more: the second of two.
            self.test(IF_AT_LEAST, 4 * (STEPS_AT_ONCE + 1), To::Next, To::Next);
            if let Some(last) = self.code.last_mut() {
                last.jt = 1;
            }
            self.jump(otherwise);
            for _ in 0..STEPS_AT_ONCE {
                self.then(LOAD_WORD_AT_X, 4);
                for (place, (_, second)) in attribute.iter().enumerate() {
                    let second = u32::from_be_bytes(*second);
                    self.test(IF_EQUAL, second, To::Found(number, words, place), To::Next);
                }
                self.then(FROM_X, 0);
                self.then(ADD, 4);
                self.then(TO_X, 0);
            }
            self.jump(To::Words(number, words));
            for place in 0..attribute.len() {
                self.here(To::Found(number, words, place));
                self.jump(To::Second(number, place));
            }
            self.here(To::Words(number, words));
        }
        self.jump(otherwise);
        for (place, (first, _)) in attribute.iter().enumerate() {
            self.here(To::Second(number, place));
            self.then(LOAD_WORD_AT_X, 0);
            self.test_far(IF_EQUAL, u32::from_be_bytes(*first), To::Searched(number));
            self.jump(otherwise);
        }
        self.here(To::Searched(number));
    }

    /// Compares the first word, which is loaded once, with that of each sign of such a length.
    fn first_words(&mut self, fits: impl Fn(u32) -> bool) {
        self.then(code::LOAD_WORD_AT_X, 0);
        for (index, sign) in SIGNS.iter().enumerate().filter(|(_, sign)| fits(sign.length())) {
            let first = sign.words[0];
            // The second of the same word is where the first continues when it does not match.
            if !sign.has_first_word()
                || SIGNS[..index].iter().any(|before| before.words[0] == first)
            {
                continue;
            }
            let found = match sign.words.len() {
                1 => To::More(sign.says.more()),
                _ => To::Sign(index),
            };
            self.test_far(code::IF_EQUAL, first.2, found);
        }
    }

    /// Signs of no whole first word that an answer shorter than [`LOOKED_AT`] may have, the shortest first: a load beyond the packet
    /// would end the program.
    fn others(&mut self, fits: impl Fn(&Sign) -> bool) {
        use code::*;
        let others = SIGNS.iter().filter(|sign| !sign.has_first_word() && fits(sign));
        let mut others: Vec<&Sign> = others.collect();
        others.sort_by_key(|sign| sign.length());
        let mut length = 0;
        for sign in others {
            if sign.length() > length {
                length = sign.length();
                self.then(LOAD_LENGTH, 0);
                self.then(SUBTRACT_X, 0);
                self.test(IF_AT_LEAST, length, To::Next, To::Next);
                if let Some(last) = self.code.last_mut() {
                    last.jt = 1;
                }
                self.jump(To::Plain);
            }
            self.rest(sign.words, To::More(sign.says.more()), To::Next);
        }
    }

    /// All of these words, one after the other.
    fn rest(&mut self, words: &[Word], found: To, otherwise: To) {
        let begin = self.code.len();
        // Where the first that differs goes: past all of them, each of two or three instructions, and the jump.
        let length: usize =
            words.iter().map(|(_, mask, _)| 2 + usize::from(*mask != u32::MAX)).sum();
        for (offset, mask, value) in words {
            self.then(code::LOAD_WORD_AT_X, *offset);
            if *mask != u32::MAX {
                self.then(code::AND, *mask);
            }
            self.test(code::IF_EQUAL, *value, To::Next, To::Next);
            let past = begin + length - self.code.len() + 1;
            if let Some(last) = self.code.last_mut() {
                last.jf = past as u8;
            }
        }
        self.jump(found);
        if otherwise != To::Next {
            self.jump(otherwise);
        }
    }
}
