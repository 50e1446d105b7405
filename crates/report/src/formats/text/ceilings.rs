//! Every ceiling, and every cure with its line to paste.

use std::collections::BTreeMap;

use linerate_roofline::{Advice, Assessed, State};

use super::sheet::{Sheet, Tone};
use crate::document::Roofline;
use crate::facts;
use crate::table::Table;

// Chosen: a ceiling that is a hundred times as high as what is done says nothing but that it is far away.
const FAR: f64 = 100.0;

pub(super) fn ceilings(sheet: &mut Sheet, roofline: &Roofline, unread: &BTreeMap<String, String>) {
    if roofline.roofs.is_empty() && unread.is_empty() {
        return;
    }
    sheet.gap();
    sheet.heading(&format!("Ceilings ({})", roofline.unit));
    let mut table = Table::new("", &["", ""], &["ceiling", "attained"]);
    let is_far = |roof: &&Assessed| {
        !roof.binds && roof.ceiling.is_some_and(|rate| rate.0 > FAR * roofline.attained)
    };
    let is_refuted = |roof: &&Assessed| !roof.binds && facts::is_refuted(roof);
    let (refuted, ceilings): (Vec<_>, Vec<_>) =
        facts::roofs(roofline, State::Ceiling).partition(is_refuted);
    let (far, applying): (Vec<_>, Vec<_>) = ceilings.into_iter().partition(is_far);
    for roof in &applying {
        let mark = if roof.binds { "binds" } else { "" };
        let row = vec![mark.into(), roof.id.clone(), facts::ceiling(roof), facts::attained(roof)];
        table.rows.push(row);
    }
    let lines = if applying.is_empty() { Vec::new() } else { table.lines() };
    for (index, line) in lines.into_iter().enumerate() {
        match index.checked_sub(1).and_then(|index| applying.get(index)) {
            Some(roof) => {
                sheet.line(2, if roof.binds { Tone::Loud } else { Tone::Plain }, &line);
                sheet.wrapped(9, &roof.sum);
            }
            None => sheet.line(2, Tone::Quiet, &line),
        }
    }
    let aside: Vec<_> = facts::roofs(roofline, State::DoesNotApply).collect();
    let lists = [
        ("below the attained rate, so no limit: ", refuted),
        ("far away: ", far),
        ("does not apply: ", aside),
    ];
    for (label, roofs) in lists {
        if !roofs.is_empty() {
            let ids: Vec<_> = roofs.iter().map(|roof| roof.id.as_str()).collect();
            sheet.item(2, label, &ids.join(", "));
        }
    }
    for roof in facts::roofs(roofline, State::Unmeasured) {
        sheet.item(2, "unmeasured: ", &format!("{}: {}", roof.id, roof.sum));
    }
    // One reason often keeps several from being read.
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (source, reason) in unread {
        by_reason.entry(reason).or_default().push(source);
    }
    for (reason, sources) in by_reason {
        sheet.item(2, "not read: ", &format!("{}: {reason}", sources.join(", ")));
    }
}

/// Every cure in full.
pub(super) fn cures(sheet: &mut Sheet, advice: &[Advice]) {
    for advice in advice {
        sheet.gap();
        sheet.labelled("CURE", Tone::Loud, &facts::cure_heading(advice));
        sheet.wrapped(7, &advice.does);
        if let Some(expected) = facts::expected(&advice.predicted) {
            sheet.wrapped(7, &format!("expected: {expected}"));
        }
        // To be pasted: never wrapped.
        sheet.item_whole(7, "by hand: ", &advice.by_hand);
    }
}

/// The first cure in two lines, without the line to paste where there is no room for it.
pub(super) fn first_cure(
    sheet: &mut Sheet,
    advice: &[Advice],
    roofline: &Roofline,
    lines: CureLines,
) {
    let Some(first) = advice.first() else { return };
    let mut cure = facts::cure(first, roofline);
    // Where of the best only the most is known that it may give, the next one may promise something.
    if let Some(second) = advice.get(1).filter(|of| first.is_bound && !of.is_bound) {
        cure += &format!(". Or {}", facts::cure(second, roofline));
    }
    sheet.labelled("CURE", Tone::Loud, &cure);
    if lines == CureLines::WithByHand && !facts::is_by_hand(first) {
        sheet.item_whole(7, "by hand: ", &first.by_hand);
    }
}

/// How much of a cure there is room for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CureLines {
    WithByHand,
    Knob,
}
