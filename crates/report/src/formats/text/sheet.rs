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
        let mut sheet = Sheet::new(Look { width: 34, colour: false });
        sheet.labelled("LIMIT", Tone::Loud, "ten connections by forty milliseconds");
        assert_eq!(sheet.finish(), "LIMIT  ten connections by forty\n       milliseconds\n");
    }

    #[test]
    fn an_escape_sequence_does_not_reach_the_terminal() {
        let mut sheet = Sheet::new(Look { width: 80, colour: false });
        sheet.wrapped(0, "server \u{1b}[2J\u{202e}gone");
        assert_eq!(sheet.finish(), "server \u{fffd}[2J\u{fffd}gone\n");
    }
}
