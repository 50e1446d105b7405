//! The last lines that a process wrote, for the sentence that says how it ended.

use std::collections::VecDeque;

/// Chosen: three are shown; some more, so that empty ones can be passed over.
const LINES: usize = 12;

/// Chosen: a line of a person's screen, twice over. A binary stream has no line ends at all.
const LINE_BYTES: usize = 240;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<Vec<u8>>,
    begun: Vec<u8>,
}

impl Tail {
    /// Takes what was written, in whatever pieces.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                _ if self.begun.len() < LINE_BYTES => self.begun.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.begun);
        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
    }

    /// `; its last words: a / b / c`, of at most three lines that say something; or that it said nothing.
    pub fn last_words(&self) -> String {
        let begun = Some(&self.begun).filter(|line| !line.is_empty());
        let lines: Vec<_> = self.lines.iter().chain(begun).collect();
        if lines.is_empty() {
            return "; it said nothing".to_owned();
        }
        let last: Vec<_> = lines[lines.len().saturating_sub(3)..]
            .iter()
            .map(|line| String::from_utf8_lossy(line).trim().to_owned())
            .collect();
        format!("; its last words: {}", last.join(" / "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_three_lines_that_say_something_are_kept() {
        let mut tail = Tail::default();
        for n in 0..100 {
            tail.push(format!("line {n}\n\n").as_bytes());
        }
        tail.push(b"without an e");
        tail.push(b"nd");
        assert_eq!(tail.last_words(), "; its last words: line 98 / line 99 / without an end");
    }

    #[test]
    fn a_stream_without_line_ends_does_not_fill_memory() {
        let mut tail = Tail::default();
        tail.push(&[b'x'; 100_000]);
        assert_eq!(tail.begun.len(), LINE_BYTES);
    }

    #[test]
    fn silence_is_said() {
        assert_eq!(Tail::default().last_words(), "; it said nothing");
    }
}
