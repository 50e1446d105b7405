//! Numbers for people.

pub(crate) use linerate_model::words::duration;

/// A count with thousands apart.
pub(crate) fn count(value: u32) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
