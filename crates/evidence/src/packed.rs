//! A histogram at rest: HDR V2 bytes, a few hundred where the live one has a hundred thousand.

use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

/// A histogram at rest. Whole numbers, in the slices nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packed {
    count: u64,
    sum: f64,
    bytes: Vec<u8>,
}

/// A live histogram: three significant digits, as long as its largest value wants it (16 KiB; 216 KiB for a minute in ns).
///
/// Source: HdrHistogram; 3 digits bound the error of any percentile by 0.1 %.
pub fn live_histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 significant digits are within HDR's 0 to 5")
}

/// A histogram being recorded; none until there is something to record, because most of a slice's stay empty.
#[derive(Clone, Debug, Default)]
pub struct Live(Option<Box<Histogram<u64>>>);

/// Emptied ones, for who records next: they have grown already, and their memory is there. New memory costs a thread that
/// measures a fault a page, which a virtual machine's host may take microseconds for.
static EMPTIED: Mutex<Vec<Histogram<u64>>> = Mutex::new(Vec::new());

/// Chosen: those of two slices of eight threads, with five that are recorded in each.
const KEPT: usize = 80;

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(mut histogram) = self.0.take() {
            histogram.reset();
            let mut emptied = EMPTIED.lock().unwrap_or_else(PoisonError::into_inner);
            if emptied.len() < KEPT {
                emptied.push(*histogram);
            }
        }
    }
}

impl Live {
    #[inline]
    fn histogram(&mut self) -> &mut Histogram<u64> {
        self.0.get_or_insert_with(|| {
            // Who measures waits for nobody.
            let emptied = EMPTIED.try_lock().ok().and_then(|mut emptied| emptied.pop());
            Box::new(emptied.unwrap_or_else(live_histogram))
        })
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        // It grows for longer values, and fails only past 2^63 ns.
        let _ = self.histogram().record(value);
    }

    /// Adds one value so many times.
    pub fn record_n(&mut self, value: u64, count: u64) {
        if count > 0 {
            let _ = self.histogram().record_n(value, count);
        }
    }

    /// Adds what a packed one holds.
    pub fn add(&mut self, packed: &Packed) {
        if !packed.is_empty() {
            packed.add_to(self.histogram());
        }
    }

    /// What a packed one holds.
    pub fn of(packed: &Packed) -> Self {
        let mut live = Self::default();
        live.add(packed);
        live
    }

    /// What was recorded; none: nothing.
    pub fn recorded(&self) -> Option<&Histogram<u64>> {
        self.0.as_deref()
    }
}

impl Packed {
    /// Packs a live one.
    pub fn pack(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("writing to memory fails only past isize::MAX bytes");
        let count = histogram.len();
        Self { count, sum: histogram.mean() * count as f64, bytes }
    }

    /// How many values it holds.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sum of its values, within the histogram's 0.1 %.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Adds its values to a live one.
    pub fn add_to(&self, live: &mut Histogram<u64>) {
        if let Some(histogram) = unpack(&self.bytes) {
            live.add(histogram).expect("an auto-resizing histogram holds any u64");
        }
    }

    /// HDR V2, base64: what the other languages' HdrHistogram libraries read.
    pub fn to_base64(&self) -> String {
        BASE64.encode(&self.bytes)
    }

    /// From base64; the error says what is wrong.
    pub fn from_base64(text: &str) -> Result<Self, String> {
        let bytes = BASE64.decode(text).map_err(|error| format!("not base64: {error}"))?;
        // Shorter than a V2 header.
        if bytes.len() < 40 {
            return Err("shorter than an HDR V2 header".into());
        }
        // The library allocates what the header promises before it reads further: 5 digits up to
        // 2^64 would be 40 MiB, and linerate writes 3.
        let digits = i32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        if !(0..=4).contains(&digits) {
            return Err(format!("{digits} significant digits; expected 0 to 4"));
        }
        let histogram = unpack(&bytes).ok_or("not HDR V2")?;
        Ok(Self { count: histogram.len(), sum: histogram.mean() * histogram.len() as f64, bytes })
    }
}

fn unpack(bytes: &[u8]) -> Option<Histogram<u64>> {
    Deserializer::new().deserialize(&mut std::io::Cursor::new(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_recorded_is_there_after_packing() {
        let mut live = live_histogram();
        live.record_n(40_400_000, 3).unwrap();
        let packed = Packed::from_base64(&Packed::pack(&live).to_base64()).unwrap();
        assert_eq!(packed.len(), 3);
        assert!((packed.sum() / 3.0 - 40_400_000.0).abs() < 40_400.0); // within 0.1 %
        let mut other = live_histogram();
        packed.add_to(&mut other);
        assert_eq!(other.len(), 3);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Packed::from_base64(&BASE64.encode(bytes));
        }
    }
}
