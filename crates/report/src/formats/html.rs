//! One page that needs nothing else: no network, no font, no script to be complete. Opens from a
//! file, prints, and reads in light and dark.

use crate::facts;
use crate::formats::{Format, Look};
use crate::read::Document;
use crate::svg::escape;

mod climb;
mod doctor;
mod parts;
mod run;
mod scan;
mod study;
mod users;

pub(super) const FORMAT: Format = Format {
    name: "html",
    extension: "html",
    says: "One self-contained page with the charts.",
    render,
};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

fn render(document: &Document, _: &Look) -> String {
    let (title, body) = match document {
        Document::Run(run) => {
            (format!("{}: {}", facts::subject(run), facts::limit(run)), run::page(run))
        }
        Document::Climb(climb) => {
            (format!("{}: {}", facts::climbed(climb), facts::climb_line(climb)), climb::page(climb))
        }
        Document::Doctor(doctor) => {
            (format!("{}: {}", doctor.watched, facts::answer(doctor).1), doctor::page(doctor))
        }
        Document::Predict(of) => told(&facts::predict(of)),
        Document::WhatIf(of) => told(&facts::what_if(of)),
        Document::Compare(of) => {
            let says = facts::compared(of);
            let mut body = parts::masthead("compare", &says, "");
            body += "<section>\n";
            body += &parts::table(&facts::compared_figures(of));
            body += &parts::list(&facts::compared_notes(of));
            body += "</section>\n";
            body += &parts::section("Gates", &facts::compared_gates(of), &[]);
            (format!("compare: {says}"), body)
        }
        Document::Study(scan) if !scan.scan.is_empty() => {
            (format!("{}: {}", scan.name, scan.about), scan::page(scan))
        }
        Document::Study(study) => {
            let page = match &study.users {
                Some(users) => users::page(study, users),
                None => study::page(study),
            };
            (format!("{}: published and measured", study.name), page)
        }
    };
    // The policy lets nothing be fetched, whatever may slip into the text.
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{body}</main>
<script>
{SCRIPT}</script>
</body>
</html>
"#,
        escape(&title)
    )
}

/// A prediction has no run behind it, so no charts: title and body.
fn told(told: &facts::Told) -> (String, String) {
    let mut body = parts::masthead(told.kind, &told.from, "");
    body += "<section><dl class=\"aside\">";
    for (label, says) in &told.lines {
        body += &format!("<dt>{}</dt><dd>{}</dd>", label.to_lowercase(), escape(says));
    }
    body += "</dl></section>\n<section>\n";
    body += &parts::table(&told.table);
    body += "</section>\n<section><h2>Not seen</h2>";
    body += &parts::list(&told.blind_spots);
    body += "</section>\n";
    (format!("{}: {}", told.kind, told.from), body)
}
