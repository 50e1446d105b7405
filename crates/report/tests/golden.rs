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

/// With `-v`.
fn whole(format: &str, document: &Document) -> String {
    written(format, document, Look { verbose: true, ..Look::default() })
}

fn run(run: linerate_report::RunDocument) -> Document {
    Document::Run(Box::new(run))
}

fn doctor(doctor: linerate_report::DoctorDocument) -> Document {
    Document::Doctor(Box::new(doctor))
}

#[test]
fn text_of_a_pool_says_how_many_at_a_time_and_where_the_time_goes() {
    insta::assert_snapshot!(plain("text", &run(samples::pool())));
}

#[test]
fn text_of_a_pool_in_full() {
    insta::assert_snapshot!(whole("text", &run(samples::pool())));
}

#[test]
fn text_of_a_run_with_everything_to_say_keeps_to_fifteen_lines() {
    let text = plain("text", &run(samples::crowded()));
    let rows: usize = text.lines().map(|line| line.chars().count().div_ceil(80).max(1)).sum();
    assert!(rows <= 15, "{rows}: {text}");
    insta::assert_snapshot!(text);
}

#[test]
fn where_half_of_the_connections_gave_more_than_all_the_report_says_so() {
    let mut of = samples::pool();
    let experiment = of.experiment.as_mut().unwrap();
    let (full, half) = (experiment.full, experiment.half.as_mut().unwrap());
    assert!(!plain("text", &run(samples::pool())).contains("hinder"));
    (half.measured_per_s, half.interval) = (2.0 * full.per_s, [1.9 * full.per_s, 2.1 * full.per_s]);
    let text = plain("text", &run(of.clone())).replace("\n       ", " ");
    assert!(
        text.contains("requests hinder each other, and a limit of 16 at a time gives more"),
        "{text}"
    );
    // As much as all of them gave at another time is no more.
    let experiment = of.experiment.as_mut().unwrap();
    experiment.again = Some(linerate_report::Tried { interval: [100.0, 2.0 * full.per_s], ..full });
    assert!(!plain("text", &run(of)).contains("hinder"));
}

#[test]
fn a_run_takes_fifteen_lines_at_most_and_doctor_twenty() {
    let rows = |text: &str| -> usize {
        text.lines().map(|line| line.chars().count().div_ceil(80).max(1)).sum()
    };
    for of in [samples::nagle(), samples::overloaded(), samples::void(), samples::across_sites()] {
        let text = plain("text", &run(of));
        assert!(rows(&text) <= 15, "{text}");
    }
    for of in [samples::doctor(), samples::idle()] {
        let text = plain("text", &doctor(of));
        assert!(rows(&text) <= 20, "{text}");
    }
}

#[test]
fn stamps_alone_say_why_nothing_is_split() {
    let mut of = samples::nagle();
    if let Some(account) = &mut of.account {
        account.source = linerate_report::Source::Stamps;
        account.stations.clear();
    }
    of.unread.insert("census".into(), "the target is on another host".into());
    let text = plain("text", &run(of));
    assert!(
        text.contains("TIME   a request, 40.4 ms: not split: the target is on another host"),
        "{text}"
    );
}

#[test]
fn text_of_a_run_begins_with_what_holds_it() {
    insta::assert_snapshot!(plain("text", &run(samples::nagle())));
}

#[test]
fn a_ceiling_that_the_run_exceeded_and_a_prediction_of_nothing_are_left_out() {
    let mut absurd = samples::nagle();
    let roof = absurd.roofline.roofs.iter_mut().find(|roof| !roof.binds && roof.share.is_some());
    let roof = roof.expect("the sample has ceilings that do not bind");
    (roof.ceiling, roof.share) = (Some(linerate_model::OpRate(1.0)), Some(71.91));
    let (id, sum) = (roof.id.clone(), roof.sum.clone());
    let predicted = &mut absurd.advice[0].predicted;
    for end in [&mut predicted.low, &mut predicted.mid, &mut predicted.high] {
        *end = linerate_model::OpRate(0.0);
    }
    for format in ["text", "markdown", "html"] {
        let says = plain(format, &run(absurd.clone()));
        assert!(!says.contains("7191 %"), "{format}: {says}");
        let says_lower = says.to_lowercase();
        assert!(!says_lower.contains("expect 0/s") && !says.contains("(0/s to 0/s)"), "{format}");
        // The chart draws what it has; its text and the tables have only what can be.
        assert!(format == "html" || !says.contains(&sum), "{format}: {says}");
    }
    let text = whole("text", &run(absurd));
    assert!(text.contains(&format!("below the attained rate, so no limit: {id}")), "{text}");
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
    insta::assert_snapshot!(whole("text", &run(samples::across_sites())));
}

#[test]
fn text_of_a_climb() {
    insta::assert_snapshot!(plain("text", &Document::Climb(samples::climb())));
}

#[test]
fn text_of_a_doctor_in_full() {
    insta::assert_snapshot!(whole("text", &doctor(samples::doctor())));
}

#[test]
fn text_of_an_overload_in_full() {
    insta::assert_snapshot!(whole("text", &run(samples::overloaded())));
}

#[test]
fn markdown_of_a_pool_has_account_and_experiment() {
    insta::assert_snapshot!(plain("markdown", &run(samples::pool())));
}

#[test]
fn the_first_figure_of_a_page_is_the_account() {
    let first = |document: &Document| {
        let html = plain("html", document);
        let at = html.find("<figure").expect("a page has figures");
        html[at..at + 60].to_owned()
    };
    for document in [run(samples::pool()), Document::Climb(samples::climb())] {
        assert!(first(&document).contains("id=\"account\""), "{}", first(&document));
    }
    let html = plain("html", &run(samples::pool()));
    assert!(html.contains("id=\"experiment\""));
    // Of an older linerate: no account, no empty figure.
    assert!(!plain("html", &run(samples::overloaded())).contains("id=\"account\""));
}

#[test]
fn text_of_a_study_between_nodes() {
    insta::assert_snapshot!(plain("text", &Document::Study(samples::link())));
}

#[test]
fn a_page_of_a_study_between_nodes_draws_throughput_and_messages() {
    let html = plain("html", &Document::Study(samples::link()));
    for (figure, says) in [("between", "11.2 Gbit/s at 60k"), ("messages", "23,333/s at 60k")] {
        assert!(html.contains(&format!("id=\"{figure}\"")), "{figure}");
        assert!(html.contains(&format!("the link: {says}")), "{says}");
    }
}

#[test]
fn text_of_a_study_of_users() {
    let study = Document::Study(samples::users());
    insta::assert_snapshot!(plain("text", &study));
    let csv = plain("csv", &study);
    assert_eq!(csv.lines().count(), 6, "{csv}");
    let html = plain("html", &study);
    // Held is what it held until it ended by itself, and not the 0 of afterwards.
    let until = "1,000 of 1,200 users held until it ended, with 1,137 online";
    assert!(html.contains(until) && !html.contains(">0</tspan>"), "{html}");
    // What the limit was stands in the figure of the server that met one.
    for figure in ["climb-0", "climb-1", "percentiles"] {
        assert!(html.contains(&format!(r#"id="{figure}""#)), "{figure}");
    }
    assert_eq!(
        html.matches("roof binds").count(),
        2,
        "one line, drawn for wide and for narrow pages"
    );
}

#[test]
fn text_of_a_study() {
    insta::assert_snapshot!(plain("text", &Document::Study(samples::study())));
}

#[test]
fn text_of_a_scan_is_one_table() {
    let scan = Document::Study(samples::scan());
    let text = plain("text", &scan);
    assert_eq!(text.matches("rate").count(), 1, "{text}");
    insta::assert_snapshot!(text);
    // With -v each run follows.
    assert!(whole("text", &scan).contains("\nc=10 nodelay=on\n"));
}

#[test]
fn junit_has_a_test_for_each_gate_figure_and_claim() {
    insta::assert_snapshot!(plain("junit", &run(samples::gated())));
    let compare = Document::Compare(Box::new(samples::compare()));
    insta::assert_snapshot!(plain("junit", &compare));
    let study = plain("junit", &Document::Study(samples::study()));
    assert_eq!(study.matches("<failure ").count(), 1, "{study}");
    let void = plain("junit", &run(samples::void()));
    assert!(void.contains(" errors=\"1\"") && void.contains("<error message=\"the run is void: "));
    // What no gate can be asked of is one test, which passes.
    let doctor = plain("junit", &doctor(samples::doctor()));
    assert!(doctor.contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{doctor}");
}

#[test]
fn markdown_of_gates_and_comparisons_is_a_table() {
    let gated = plain("markdown", &run(samples::gated()));
    let rows: Vec<_> = gated.lines().filter(|line| line.contains("BREACHED")).collect();
    assert_eq!(rows, ["| p99&gt;10ms | BREACHED | p99 is 40.450 ms |"]);
    insta::assert_snapshot!(plain("markdown", &Document::Compare(Box::new(samples::compare()))));
}

#[test]
fn markdown_of_a_scan_is_one_table() {
    insta::assert_snapshot!(plain("markdown", &Document::Study(samples::scan())));
}

#[test]
fn name_and_labels_are_in_every_format_and_without_a_name_the_target_is() {
    let mut named = samples::nagle();
    named.plan.name = "checkout".into();
    named.plan.labels = [("build".to_owned(), "1423".to_owned())].into();
    let mut bare = named.clone();
    bare.plan.name = "run".into();
    bare.plan.target.beam = None;
    bare.plan.target.address = Some("10.0.0.7:8080".into());
    for format in FORMATS {
        let says = plain(format.name, &run(named.clone()));
        assert!(says.contains("checkout") && says.contains("1423"), "{}: {says}", format.name);
    }
    let html = plain("html", &run(bare));
    assert!(html.contains("<title>http://10.0.0.7:8080/: "), "{}", &html[..900]);
    assert!(html.contains("<h1>http://10.0.0.7:8080/</h1>"));
    let scan = plain("html", &Document::Study(samples::scan()));
    assert!(scan.contains("<title>httpd: c=1,10 nodelay=off,on</title>"), "{}", &scan[..900]);
    assert!(scan.contains("build=1423"));
}

#[test]
fn the_course_of_a_run_stands_above_its_lists() {
    let html = plain("html", &run(samples::pool()));
    let at = |what: &str| html.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(at("id=\"series\"") < at("<table"), "the course is below a table");
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
        run(samples::pool()),
        run(samples::crowded()),
        run(samples::overloaded()),
        run(samples::void()),
        Document::Climb(samples::climb()),
        Document::Study(samples::study()),
        Document::Study(samples::link()),
        Document::Study(samples::users()),
        Document::Study(samples::scan()),
        doctor(samples::doctor()),
        doctor(samples::idle()),
    ] {
        let both = plain("text", &document) + &whole("text", &document);
        for line in both.lines() {
            assert!(line.chars().count() <= 80 || line.contains("by hand: "), "{line}");
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let climb = Document::Climb(samples::climb());
    let coloured = written("text", &climb, Look { colour: true, ..Look::default() });
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
