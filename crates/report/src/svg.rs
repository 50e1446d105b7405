//! Scalable drawings made by hand: scales, axes, labels that keep out of each other's way.
//!
//! Shapes carry classes; the page's style sheet gives them colour, so that one drawing serves light,
//! dark and paper.

mod chart;
mod labels;
mod scale;

pub(crate) use chart::{Chart, Size, says_attribute};
pub(crate) use labels::{Label, spread, wrap};
pub(crate) use scale::Scale;

/// Text that markup takes for nothing but text. Names and error texts come from servers.
pub(crate) fn escape(says: &str) -> String {
    let mut out = String::with_capacity(says.len());
    for c in says.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            // Direction overrides reorder what stands beside them.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            '\n' => out.push(c),
            _ if c.is_control() => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_from_outside_is_only_text() {
        assert_eq!(
            escape("</svg><script>alert('x')</script>\u{1b}\u{202e}"),
            "&lt;/svg&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\u{fffd}\u{fffd}"
        );
    }
}
