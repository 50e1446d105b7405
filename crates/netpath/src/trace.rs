//! Traces: a rate that changes, as a list of instants at which a packet could be sent.
//!
//! Source: mahimahi's format. A line is a whole number of milliseconds since the trace began, none less
//! than the one before; each is an opportunity to deliver 1,504 bytes, and is wasted where nothing waits.
//! The last one is the length of the trace, after which it begins again. What an opportunity has left
//! over is used by the next packet that waits.

use linerate_model::Timestamp;

/// Source: mahimahi's `PACKET_SIZE`.
const OPPORTUNITY: u64 = 1504;

/// Source: mahimahi's packets carry the header of their TUN device; ours do not, and are as long.
const TUN_HEADER: u64 = 4;

/// Source: a millisecond.
const MS: u64 = 1_000_000;

/// Delivery opportunities. See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trace {
    /// In milliseconds, in order, the last one not 0.
    opportunities: Vec<u64>,
}

/// A trace that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadTrace {
    /// Not a number.
    #[error("line {line}: `{found}` is no number of milliseconds: write a whole number a line")]
    NotANumber {
        /// From 1.
        line: usize,
        /// What stands there.
        found: String,
    },
    /// Before the line before it.
    #[error("line {line}: {found} ms is before {before} ms of the line above: sort the lines")]
    Backwards {
        /// From 1.
        line: usize,
        /// What stands there.
        found: u64,
        /// What stands above it.
        before: u64,
    },
    /// No time passes in it.
    #[error("the trace has no length: its last line is how many milliseconds it lasts, 1 or more")]
    Empty,
}

impl Trace {
    /// Reads mahimahi's format.
    pub fn parse(text: &str) -> Result<Self, BadTrace> {
        let mut opportunities: Vec<u64> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            let found: u64 = line.trim().parse().map_err(|_| BadTrace::NotANumber {
                line: line_number,
                found: line.chars().take(40).collect(),
            })?;
            let before = opportunities.last().copied().unwrap_or(0);
            if found < before {
                return Err(BadTrace::Backwards { line: line_number, found, before });
            }
            // A year in milliseconds is far beyond any trace, and its nanoseconds fit in 64 bits.
            if found > 31_536_000_000 {
                return Err(BadTrace::NotANumber { line: line_number, found: found.to_string() });
            }
            opportunities.push(found);
        }
        if opportunities.last().is_none_or(|last| *last == 0) {
            return Err(BadTrace::Empty);
        }
        Ok(Self { opportunities })
    }

    /// Bits a second in the mean, of packets as long as an opportunity.
    pub fn mean_rate(&self) -> linerate_model::BitRate {
        let bytes = self.opportunities.len() as u64 * (OPPORTUNITY - TUN_HEADER);
        linerate_model::BitRate(bytes as f64 * 8e9 / self.length() as f64)
    }

    /// In nanoseconds.
    fn length(&self) -> u64 {
        self.opportunities.last().map_or(MS, |last| last * MS)
    }
}

/// A place in a trace that is repeated for ever, from the first packet on.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    trace: Trace,
    /// When the present round began; none before the first packet.
    began: Option<u64>,
    /// The opportunity that is next.
    next: usize,
    /// When the present one came.
    at: u64,
    /// Bytes that it still takes.
    left: u64,
}

impl Cursor {
    pub fn new(trace: Trace) -> Self {
        Self { trace, began: None, next: 0, at: 0, left: 0 }
    }

    /// Wastes all that came until `now`, since nothing waited.
    pub fn skip_to(&mut self, now: Timestamp) {
        let length = self.trace.length();
        let began = *self.began.get_or_insert(now.0);
        let began = began + now.0.saturating_sub(began) / length * length;
        let since = now.0.saturating_sub(began);
        self.began = Some(began);
        self.next = self.trace.opportunities.partition_point(|at| at * MS <= since);
        self.left = 0;
    }

    /// When so many bytes are through, sent after all before them.
    pub fn through(&mut self, bytes: u64) -> Timestamp {
        let mut bytes = bytes + TUN_HEADER;
        loop {
            let taken = bytes.min(self.left);
            self.left -= taken;
            bytes -= taken;
            if bytes == 0 {
                return Timestamp(self.at);
            }
            self.take_next();
        }
    }

    fn take_next(&mut self) {
        if self.next == self.trace.opportunities.len() {
            self.next = 0;
            self.began = self.began.map(|began| began + self.trace.length());
        }
        self.at = self.began.unwrap_or(0) + self.trace.opportunities[self.next] * MS;
        self.next += 1;
        self.left = OPPORTUNITY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_told_by_line() {
        let error = |text: &str| Trace::parse(text).unwrap_err().to_string();
        assert!(error("1\nx\n").starts_with("line 2: `x` is no number"));
        assert!(error("1\n\n2").starts_with("line 2: ``"));
        assert!(error("5\n3\n").starts_with("line 2: 3 ms is before 5 ms"));
        assert!(error("").contains("no length"));
        assert!(error("0\n0\n").contains("no length"));
        assert!(error("99999999999999\n").starts_with("line 1"));
    }

    #[test]
    fn each_line_delivers_a_full_packet_and_the_trace_begins_again() {
        let mut cursor = Cursor::new(Trace::parse("1\n1\n5\n").unwrap());
        cursor.skip_to(Timestamp(1_000));
        let times: Vec<u64> = (0..7).map(|_| (cursor.through(1500).0 - 1_000) / MS).collect();
        assert_eq!(times, [1, 1, 5, 6, 6, 10, 11]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_two() {
        let mut cursor = Cursor::new(Trace::parse("1\n2\n3\n").unwrap());
        cursor.skip_to(Timestamp(0));
        // 748 + 4 twice are 1,504; 1,501 + 4 is one more than an opportunity
        let times = [748, 748, 1501, 100].map(|bytes| cursor.through(bytes).0 / MS);
        assert_eq!(times, [1, 1, 3, 3]);
    }

    #[test]
    fn what_nobody_used_is_wasted() {
        let mut cursor = Cursor::new(Trace::parse("1\n2\n3\n4\n").unwrap());
        cursor.skip_to(Timestamp(0));
        assert_eq!(cursor.through(100).0, MS);
        // At 2 ms sharp that of 2 ms is gone; 4 ms are a round, so 9.5 ms is 1.5 ms into the third.
        cursor.skip_to(Timestamp(2 * MS));
        assert_eq!(cursor.through(100).0, 3 * MS);
        cursor.skip_to(Timestamp(9_500_000));
        assert_eq!(cursor.through(100).0, 10 * MS);
    }
}
