//! How a document is written. To add one: a file here, and its line in [`FORMATS`].

use crate::read::Document;

mod csv;
mod html;
mod json;
mod junit;
mod markdown;
mod text;

/// A way to write a document.
pub struct Format {
    /// Its word on the command line.
    pub name: &'static str,
    /// Of files, without the dot.
    pub extension: &'static str,
    /// What it is for, in a sentence.
    pub says: &'static str,
    /// Writes it; ends with a line end.
    pub render: fn(&Document, &Look) -> String,
}

/// How a page of text may look. Formats for machines ignore it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// Whether ANSI colours may be used; nothing is said by colour alone.
    pub colour: bool,
    /// Everything that is known, instead of the answer in fifteen lines.
    pub verbose: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self { width: 80, colour: false, verbose: false }
    }
}

/// Every format, the terminal's first.
pub static FORMATS: &[Format] =
    &[text::FORMAT, json::FORMAT, csv::FORMAT, markdown::FORMAT, html::FORMAT, junit::FORMAT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_are_unique_words() {
        for (index, format) in FORMATS.iter().enumerate() {
            assert!(format.name.chars().all(|c| c.is_ascii_lowercase()), "{}", format.name);
            assert!(format.says.ends_with('.'), "{}", format.name);
            for other in &FORMATS[index + 1..] {
                assert_ne!(format.name, other.name);
                assert_ne!(format.extension, other.extension);
            }
        }
    }
}
