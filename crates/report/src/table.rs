//! A table as data: text, Markdown and HTML draw the same one.

/// Head, rows, and what it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) head: Vec<Head>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column: its heading, and whether it is read as words or as numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) says: String,
    pub(crate) side: Side,
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Left,
    Right,
}

impl Table {
    /// An empty table; words stand left, and so does the first column.
    pub(crate) fn new(caption: &str, words: &[&str], numbers: &[&str]) -> Self {
        let column = |side| move |says: &&str| Head { says: (*says).to_owned(), side };
        Self {
            caption: caption.to_owned(),
            head: words
                .iter()
                .map(column(Side::Left))
                .chain(numbers.iter().map(column(Side::Right)))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// In columns, two spaces apart, as lines without their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let head: Vec<&str> = self.head.iter().map(|head| head.says.as_str()).collect();
        let rows: Vec<Vec<&str>> = std::iter::once(head)
            .chain(self.rows.iter().map(|row| row.iter().map(String::as_str).collect()))
            .collect();
        let width = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> =
            (0..self.head.len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<&str>| {
            let cells = row.iter().zip(&self.head).zip(&widths).map(|((cell, head), width)| {
                let room = " ".repeat(width - cell.chars().count());
                match head.side {
                    Side::Left => format!("{cell}{room}"),
                    Side::Right => format!("{room}{cell}"),
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }
}
