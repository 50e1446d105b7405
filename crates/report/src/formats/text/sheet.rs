//! A sheet of text: wraps, indents, colours, and lets nothing through that moves a terminal.

use crate::formats::Look;

/// How loudly something is said. Words say the same, for those without colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Loud,
    Alarm,
}

/// Text under way.
pub(super) struct Sheet {
    look: Look,
    text: String,
}

impl Sheet {
    pub(super) fn new(look: Look) -> Self {
        Self { look, text: String::new() }
    }

    /// The whole sheet.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Whether everything is to be said.
    pub(super) fn is_verbose(&self) -> bool {
        self.look.verbose
    }

    /// The first of these that keeps to so many lines of the terminal, or else the last: each is told how
    /// much may be left out, from 0 up.
    pub(super) fn fit(&mut self, most: usize, worst: usize, write: impl Fn(&mut Sheet, usize)) {
        for left_out in 0..=worst {
            let mut sheet = Sheet::new(self.look);
            write(&mut sheet, left_out);
            if left_out == worst || sheet.rows() <= most {
                self.text += &sheet.text;
                return;
            }
        }
    }

    /// Lines of the terminal: one that is too long for it counts as often as it is broken.
    fn rows(&self) -> usize {
        // Colour is no column.
        let columns = |line: &str| match self.look.colour {
            true => {
                line.split('\u{1b}').map(|part| part.chars().count()).sum::<usize>()
                    - 3 * line.matches('\u{1b}').count()
            }
            false => line.chars().count(),
        };
        let width = self.look.width.max(1);
        self.text.lines().map(|line| columns(line).div_ceil(width).max(1)).sum()
    }

    /// A label, and as many of the clauses beside it, from the first on, as so many lines hold: all of the
    /// first in any case.
    pub(super) fn clauses(&mut self, label: &str, tone: Tone, says: &str, most: usize) {
        let mark = if label.is_empty() { String::new() } else { format!("{label:<5}  ") };
        let indent = if label.is_empty() { 7 } else { 0 };
        let room = self.look.width.saturating_sub(indent + mark.chars().count()).max(24);
        let mut kept = String::new();
        for clause in says.split("; ").filter(|clause| !clause.is_empty()) {
            let longer =
                if kept.is_empty() { clause.to_owned() } else { format!("{kept}; {clause}") };
            if !kept.is_empty() && wrapped(&harmless(&longer), room).len() > most {
                break;
            }
            kept = longer;
        }
        if !kept.is_empty() {
            self.hanging(indent, &mark, tone, &kept, Wrap::Words);
        }
    }

    /// An empty line, unless one is there.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// A line of its own.
    pub(super) fn heading(&mut self, says: &str) {
        self.line(0, Tone::Loud, says);
    }

    /// A line that is not wrapped.
    pub(super) fn line(&mut self, indent: usize, tone: Tone, says: &str) {
        let says = harmless(says);
        self.text += &" ".repeat(indent);
        self.text += &self.toned(tone, &says);
        self.text.push('\n');
    }

    /// A label, and text wrapped beside it.
    pub(super) fn labelled(&mut self, label: &str, tone: Tone, says: &str) {
        // Five letters and two spaces, so that the usual labels stand in one column.
        let label = format!("{label:<5}  ");
        self.hanging(0, &label, tone, says, Wrap::Words);
    }

    /// A mark, and text wrapped beside it.
    pub(super) fn item(&mut self, indent: usize, mark: &str, says: &str) {
        self.hanging(indent, mark, Tone::Plain, says, Wrap::Words);
    }

    /// The same on one line, however long.
    pub(super) fn item_whole(&mut self, indent: usize, mark: &str, says: &str) {
        self.hanging(indent, mark, Tone::Plain, says, Wrap::Never);
    }

    /// Text wrapped at an indent; nothing when there is no text.
    pub(super) fn wrapped(&mut self, indent: usize, says: &str) {
        if !says.is_empty() {
            self.hanging(indent, "", Tone::Plain, says, Wrap::Words);
        }
    }

    fn hanging(&mut self, indent: usize, mark: &str, tone: Tone, says: &str, wrap: Wrap) {
        let says = harmless(says);
        let hang = indent + mark.chars().count();
        // Chosen: on a terminal of a few columns, long lines are better than a word a line.
        let room = self.look.width.saturating_sub(hang).max(24);
        let lines = match wrap {
            Wrap::Words => wrapped(&says, room),
            Wrap::Never => vec![says],
        };
        for (index, line) in lines.iter().enumerate() {
            if index == 0 {
                self.text += &" ".repeat(indent);
                self.text += &self.toned(tone, mark);
            } else {
                self.text += &" ".repeat(hang);
            }
            self.text += line;
            self.text.push('\n');
        }
    }

    fn toned(&self, tone: Tone, says: &str) -> String {
        let code = match tone {
            _ if !self.look.colour || says.is_empty() => return says.to_owned(),
            Tone::Plain => return says.to_owned(),
            Tone::Quiet => "2",
            Tone::Loud => "1",
            Tone::Alarm => "1;31",
        };
        format!("\u{1b}[{code}m{says}\u{1b}[0m")
    }
}

#[derive(Clone, Copy)]
enum Wrap {
    Words,
    Never,
}

/// Names and error texts come from servers: an escape sequence in one must not reach the terminal.
fn harmless(says: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' => ' ',
        // Direction overrides reorder what stands beside them.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        _ if c.is_control() => '\u{fffd}',
        _ => c,
    };
    says.chars().map(shown).collect()
}

fn wrapped(says: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in unbroken(says) {
        let last = lines.last_mut().expect("it begins with one line");
        if last.is_empty() {
            last.push_str(&word);
        } else if last.chars().count() + 1 + word.chars().count() <= room {
            last.push(' ');
            last.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

/// Words, a number and its unit being one.
fn unbroken(says: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["ns", "us", "ms", "s", "%", "bit/s", "kbit/s", "Mbit/s", "Gbit/s"];
    let mut words: Vec<String> = Vec::new();
    for word in says.split(' ').filter(|word| !word.is_empty()) {
        let unit = UNITS.contains(&word.trim_end_matches([',', ';', ')', ':', '.']));
        match words.last_mut() {
            Some(number) if unit && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_parted_from_its_unit() {
        assert_eq!(wrapped("it waited 40.4 ms; then", 15), ["it waited", "40.4 ms; then"]);
    }

    #[test]
    fn words_wrap_under_the_text_and_not_under_the_label() {
        let mut sheet = Sheet::new(Look { width: 34, ..Look::default() });
        sheet.labelled("LIMIT", Tone::Loud, "ten connections by forty milliseconds");
        assert_eq!(sheet.finish(), "LIMIT  ten connections by forty\n       milliseconds\n");
    }

    #[test]
    fn an_escape_sequence_does_not_reach_the_terminal() {
        let mut sheet = Sheet::new(Look::default());
        sheet.wrapped(0, "server \u{1b}[2J\u{202e}gone");
        assert_eq!(sheet.finish(), "server \u{fffd}[2J\u{fffd}gone\n");
    }
}
