//! Whole reports, kept: a difference is a change of the product. `INSTA_UPDATE=always` re-blesses.

use linerate_report::{Document, FORMATS, Look};

mod samples;

fn written(format: &str, document: &Document, look: Look) -> String {
    let format = FORMATS.iter().find(|known| known.name == format).expect("a format by that name");
    (format.render)(document, &look)
}

fn plain(format: &str, document: &Document) -> String {
    written(format, document, Look::default())
}

fn run(run: linerate_report::RunDocument) -> Document {
    Document::Run(Box::new(run))
}

fn doctor(doctor: linerate_report::DoctorDocument) -> Document {
    Document::Doctor(Box::new(doctor))
}

#[test]
fn text_of_a_run_begins_with_what_holds_it() {
    insta::assert_snapshot!(plain("text", &run(samples::nagle())));
}

#[test]
fn text_of_an_overload_says_at_least_and_counts_what_failed() {
    insta::assert_snapshot!(plain("text", &run(samples::overloaded())));
}

#[test]
fn text_of_a_void_run_says_so_before_anything_else() {
    let text = plain("text", &run(samples::void()));
    assert!(text.starts_with("VOID   this run may not be believed\n"));
    insta::assert_snapshot!(text);
}

#[test]
fn text_of_a_run_across_sites_has_them_apart() {
    insta::assert_snapshot!(plain("text", &run(samples::across_sites())));
}

#[test]
fn text_of_a_climb() {
    insta::assert_snapshot!(plain("text", &Document::Climb(samples::climb())));
}

#[test]
fn text_of_a_study() {
    insta::assert_snapshot!(plain("text", &Document::Study(samples::study())));
}

#[test]
fn text_of_a_doctor_begins_with_what_holds_the_node() {
    insta::assert_snapshot!(plain("text", &doctor(samples::doctor())));
}

#[test]
fn text_of_an_idle_process_says_so_and_names_no_limit() {
    let text = plain("text", &doctor(samples::idle()));
    assert!(text.starts_with("IDLE   no traffic"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn markdown_of_a_doctor() {
    insta::assert_snapshot!(plain("markdown", &doctor(samples::doctor())));
}

#[test]
fn markdown_of_a_run() {
    insta::assert_snapshot!(plain("markdown", &run(samples::nagle())));
}

#[test]
fn markdown_of_a_climb() {
    insta::assert_snapshot!(plain("markdown", &Document::Climb(samples::climb())));
}

#[test]
fn csv_of_a_climb() {
    let csv = plain("csv", &Document::Climb(samples::climb()));
    assert!(csv.lines().count() == 4 && csv.ends_with("\r\n"));
    insta::assert_snapshot!(csv);
}

#[test]
fn text_keeps_to_80_columns_but_for_what_is_to_be_pasted() {
    for document in [
        run(samples::nagle()),
        run(samples::overloaded()),
        run(samples::void()),
        Document::Climb(samples::climb()),
        Document::Study(samples::study()),
        doctor(samples::doctor()),
        doctor(samples::idle()),
    ] {
        for line in plain("text", &document).lines() {
            assert!(line.chars().count() <= 80 || line.contains("by hand: "), "{line}");
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let climb = Document::Climb(samples::climb());
    let coloured = written("text", &climb, Look { width: 80, colour: true });
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        stripped += before;
        rest = after.split_once('m').expect("a colour ends with m").1;
    }
    stripped += rest;
    assert_ne!(coloured, stripped);
    assert_eq!(stripped, plain("text", &climb));
}

#[test]
fn a_hostile_target_stays_text_everywhere() {
    let hostile = run(samples::hostile());
    let text = plain("text", &hostile);
    assert!(!text.contains('\u{1b}'));
    let markdown = plain("markdown", &hostile);
    assert!(!markdown.contains('\u{1b}'));
    // Within a code block (four spaces) nothing has a meaning.
    let mut prose = markdown.lines().filter(|line| !line.starts_with("    "));
    assert!(prose.all(|line| !line.contains("<script>")));
    let html = plain("html", &hostile);
    assert_eq!(html.matches("<script").count(), 1, "only the page's own");
    assert!(!html.contains("<img"));
    assert!(html.contains("&lt;script&gt;alert("));
}

#[test]
fn a_page_names_no_other_place() {
    for document in [run(samples::nagle()), Document::Climb(samples::climb())] {
        let html = plain("html", &document);
        for fetch in ["src=", "@import", "url(", "http://", "https://"] {
            assert!(!html.contains(fetch), "{fetch}");
        }
        assert_eq!(html.matches("href=").count(), html.matches("href=\"data:,\"").count());
    }
}
