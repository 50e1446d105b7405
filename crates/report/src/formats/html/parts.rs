//! Pieces that several pages share.

use std::collections::BTreeMap;
use std::fmt::Write;

use linerate_evidence::ValidityState;
use linerate_roofline::{Advice, State};

use crate::document::{Roofline, RunDocument};
use crate::facts;
use crate::number::rate;
use crate::svg::escape;
use crate::table::{Side, Table};

/// The first lines of a page.
pub(super) fn masthead(kind: &str, name: &str, says: &str) -> String {
    format!(
        "<header><p class=\"kind\">linerate {kind}</p><h1>{}</h1><p class=\"about\">{}</p></header>\n",
        escape(name),
        escape(says)
    )
}

/// What the user says of it; nothing where that is nothing.
pub(super) fn labels(run: Option<&RunDocument>) -> String {
    let says = run.and_then(|run| facts::labels(&run.plan.labels));
    says.map_or(String::new(), |says| format!("<p class=\"labels\">{}</p>\n", escape(&says)))
}

/// Why a run is suspect or void; nothing when it is neither.
pub(super) fn validity(run: &RunDocument) -> String {
    let (class, heading) = match run.validity.state {
        ValidityState::Valid => return String::new(),
        ValidityState::Suspect => {
            ("suspect", "Suspect: read these figures with the following in mind")
        }
        ValidityState::Void => ("void", "Void: this run may not be believed"),
    };
    format!(
        "<section class=\"validity {class}\"><h2>{heading}</h2>{}</section>\n",
        list(&run.validity.reasons)
    )
}

/// What holds the run, and how fast it was.
pub(super) fn verdict(run: &RunDocument) -> String {
    let mut out = String::from("<section class=\"verdict\">");
    match facts::binding(run) {
        Some(roof) => {
            let _ = write!(
                out,
                "<p class=\"kind\">Limit</p><h2>{}</h2><p class=\"sum\">{}</p><p>{}</p>",
                escape(&roof.title),
                escape(&roof.sum),
                escape(&facts::evidence(run))
            );
        }
        None => {
            let _ = write!(
                out,
                "<p class=\"kind\">Limit</p><h2>Not found</h2><p>{}</p><p>{}</p>",
                escape(&run.verdict.says),
                escape(&facts::evidence(run))
            );
        }
    }
    let _ =
        write!(out, "<dl class=\"figures\">{}", figure("Rate", &rate(run.load.throughput_per_s)));
    let [low, high] = run.load.throughput_interval_per_s;
    if high.is_finite() {
        out += &figure("95 % interval", &format!("{} to {}", rate(low), rate(high)));
    }
    if let Some(roof) = facts::binding(run) {
        out += &figure("Ceiling", &facts::ceiling(roof));
        out += &figure("Attained", &facts::attained(roof));
    }
    out += &figure("p99 latency", &facts::value(&run.load.latency_us, 99.0));
    let carried = run.load.carried.as_ref().map(|of| format!("{}; ", of.says()));
    let streamed = run.load.streamed.as_ref().map(|of| format!("{}; ", of.says()));
    let moved = carried.or(streamed).unwrap_or_default();
    let says = escape(&format!("{moved}{}", facts::setting(run)));
    let _ = writeln!(out, "</dl><p class=\"quiet\">{says}</p></section>");
    out
}

pub(super) fn figure(name: &str, value: &str) -> String {
    format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value))
}

/// What lifts it.
pub(super) fn cures(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return String::new();
    }
    let mut out = String::from("<section><h2>Cure</h2>\n");
    advice.iter().for_each(|advice| out += &cure(advice));
    out + "</section>\n"
}

fn cure(advice: &Advice) -> String {
    let expected = facts::expected(&advice.predicted).map_or(String::new(), |expected| {
        format!("<p>Expect <strong>{}</strong></p>", escape(&expected))
    });
    format!(
        "<div class=\"cure\"><p><code class=\"knob\">{}</code> {}</p>{expected}<p class=\"quiet\">By hand</p><pre tabindex=\"0\"><code>{}</code></pre></div>\n",
        escape(&facts::cure_heading(advice)),
        escape(&advice.does),
        escape(&advice.by_hand)
    )
}

/// Every ceiling with its sum, and the roofs that have none.
pub(super) fn ceilings(roofline: &Roofline, unread: &BTreeMap<String, String>) -> String {
    let mut out = String::from("<section><h2>Ceilings</h2>\n");
    if facts::roofs(roofline, State::Ceiling).next().is_some() {
        out += &ceilings_table(roofline);
    }
    for (state, heading) in
        [(State::DoesNotApply, "Does not apply"), (State::Unmeasured, "Unmeasured")]
    {
        let roofs: Vec<_> = facts::roofs(roofline, state).collect();
        if roofs.is_empty() {
            continue;
        }
        let _ = write!(out, "<h3>{heading}</h3><dl class=\"aside\">");
        for roof in roofs {
            let _ = write!(
                out,
                "<dt><code>{}</code></dt><dd>{}</dd>",
                escape(&roof.id),
                escape(&roof.sum)
            );
        }
        out += "</dl>\n";
    }
    if !unread.is_empty() {
        out += "<h3>Not read</h3><dl class=\"aside\">";
        for (source, reason) in unread {
            let _ =
                write!(out, "<dt><code>{}</code></dt><dd>{}</dd>", escape(source), escape(reason));
        }
        out += "</dl>\n";
    }
    out + "</section>\n"
}

fn ceilings_table(roofline: &Roofline) -> String {
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Ceilings\"><table class=\"ceilings\"><caption>Every ceiling with its sum, the binding one first; {}</caption><thead><tr><th scope=\"col\">Roof</th><th scope=\"col\" class=\"number\">Ceiling</th><th scope=\"col\" class=\"number\">Attained</th></tr></thead><tbody>",
        escape(&roofline.unit)
    );
    for roof in facts::ceilings(roofline) {
        let (class, binds) =
            if roof.binds { ("binds", " <strong class=\"tag\">binds</strong>") } else { ("", "") };
        let _ = write!(
            out,
            "<tr class=\"{class}\"><th scope=\"row\">{}{binds}<br><code>{}</code><p class=\"sum\">{}</p><p class=\"quiet\">{}</p></th><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(&roof.title),
            escape(&roof.id),
            escape(&roof.sum),
            escape(&roof.because),
            facts::ceiling(roof),
            facts::attained(roof)
        );
    }
    out + "</tbody></table></div>\n"
}

/// The account and the experiment as tables; nothing where there is neither.
pub(super) fn account(run: &RunDocument) -> String {
    let mut out = String::new();
    if let Some(account) = &run.account {
        let split = facts::account(account, run.inside.as_ref());
        let notes = facts::account_notes(account, run.inside.as_ref());
        out += &section("Account", &split, &notes);
    }
    if let Some(experiment) = facts::experiment(run) {
        out += &section("Experiment", &experiment, &facts::experiment_notes(run));
    }
    out
}

/// A table with sentences under it; nothing where it is empty.
pub(super) fn section(heading: &str, of: &Table, notes: &[String]) -> String {
    if of.rows.is_empty() {
        return String::new();
    }
    let notes = if notes.is_empty() { String::new() } else { list(notes) };
    format!("<section><h2>{heading}</h2>{}{notes}</section>\n", table(of))
}

/// Times by percentile, and what they mean.
pub(super) fn times(run: &RunDocument) -> String {
    let times = facts::times(run);
    if times.rows.is_empty() {
        return "<p>Nothing was answered.</p>\n".into();
    }
    format!("{}<p class=\"quiet\">{}</p>\n", table(&times), escape(&facts::times_note(run)))
}

/// What went wrong, what was left out, what the engine cost.
pub(super) fn notes(run: &RunDocument) -> String {
    let mut notes = facts::failures(run);
    notes.push(format!("warm-up: {}", facts::warm_up(run)));
    notes.push(format!("engine: {}", facts::engine(run)));
    format!("<section><h2>Notes</h2>{}</section>\n", list(&notes))
}

/// The plan, the host, the target, each behind its heading.
pub(super) fn setting(run: &RunDocument) -> String {
    let mut out = String::from("<section><h2>Setting</h2>\n");
    let _ = writeln!(
        out,
        "<p class=\"quiet\">Started {}; ended: {}; linerate {}</p>",
        escape(&run.started),
        escape(&run.ended),
        escape(&run.program)
    );
    out += "<div class=\"setting\">\n";
    for of in [facts::plan(run), facts::target(run), facts::host(run)] {
        out += &table(&of);
    }
    out + "</div></section>\n"
}

/// A table, in a box that scrolls by itself where the page is narrow.
pub(super) fn table(table: &Table) -> String {
    let side = |side| if side == Side::Right { " class=\"number\"" } else { "" };
    let caption = escape(&table.caption);
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption><thead><tr>"
    );
    for head in &table.head {
        // An empty corner is no heading.
        let tag = if head.says.is_empty() { "td" } else { "th scope=\"col\"" };
        let end = &tag[..2];
        let _ = write!(out, "<{tag}{}>{}</{end}>", side(head.side), escape(&head.says));
    }
    out += "</tr></thead><tbody>\n";
    for row in &table.rows {
        out += "<tr>";
        for (index, (cell, head)) in row.iter().zip(&table.head).enumerate() {
            let (tag, end) = if index == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            let _ = write!(out, "<{tag}{}>{}</{end}>", side(head.side), escape(cell));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// Sentences, one under the other.
pub(super) fn list(items: &[String]) -> String {
    let items: Vec<String> =
        items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    format!("<ul>{}</ul>", items.join(""))
}
