//! The format of `/proc/net/netstat` and `/proc/net/snmp`: a line of names, a line of numbers,
//! both beginning with the same word.

use linerate_model::Timestamp;

use super::UnreadableSource;
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::Subject;

/// Pushes the fields it finds. A field that this kernel does not count is not pushed.
pub(super) fn push(
    at: Timestamp,
    of: Subject,
    text: &[u8],
    prefix: Prefix,
    fields: &[(&str, Metric<u64>)],
    evidence: &mut Evidence,
) -> Result<(), UnreadableSource> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().enumerate().filter(|(_, line)| line.starts_with(prefix.word));
    let (Some((_, names)), Some((index, numbers))) = (lines.next(), lines.next()) else {
        return Err(UnreadableSource::missing(prefix.expected, &text));
    };
    let names: Vec<&str> = names.split_ascii_whitespace().collect();
    let numbers: Vec<&str> = numbers.split_ascii_whitespace().collect();
    if names.len() != numbers.len() {
        let line = numbers.join(" ");
        return Err(UnreadableSource::line(index, "as many numbers as names above", &line));
    }
    // All before the first push, so that a damaged answer leaves nothing partial.
    let mut values = Vec::with_capacity(fields.len());
    for (name, number) in names.into_iter().zip(numbers).skip(1) {
        if let Some((_, metric)) = fields.iter().find(|(field, _)| *field == name) {
            let number: u64 = number
                .parse()
                .map_err(|_| UnreadableSource::line(index, "a whole number", number))?;
            values.push((*metric, number));
        }
    }
    for (metric, number) in values {
        evidence.push(at, of, metric, number);
    }
    Ok(())
}

/// The word both lines begin with.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    /// With its colon.
    pub(super) word: &'static str,
    /// For the error.
    pub(super) expected: &'static str,
}
