//! `docs/reference.md`, made of the code. A test holds the page to it; `make bless` writes it.

use std::fmt::Write;
use std::path::PathBuf;

use linerate_evidence::sources::SOURCES;
use linerate_report::station_ids;

use crate::failure::EXIT_CODES;
use crate::gate::{EXAMPLES, FIGURES};

mod json_names;
mod plan_keys;

/// A file of the repository.
fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn page() -> String {
    [BEGIN.to_owned(), plan_keys::part(), metrics(), json_names::part(), exit_codes(), gates()]
        .join("\n")
}

const BEGIN: &str = "\
# Reference

Made of the code by `make bless`; a test holds it to the code. Flags: `linerate COMMAND --help`, or `linerate man COMMAND`.
How to use all this: [usage.md](usage.md).

- [Plan keys](#plan-keys)
- [Metrics](#metrics)
- [JSON names](#json-names)
- [Exit codes](#exit-codes)
- [Gates](#gates)
";

fn metrics() -> String {
    let mut page = "## Metrics\n\n\
        What evidence files hold, by source. [evidence.md](evidence.md) says how they are read. A metric that is not in a \
        file was not measured; it is never zero.\n"
        .to_owned();
    for source in SOURCES {
        let (id, says, of) = (source.id, source.says, source.of);
        let _ = write!(page, "\n### `{id}`\n\n{says} Of: {of}.\n\n");
        page += "| metric | unit | is |\n|---|---|---|\n";
        for metric in source.metrics {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} |",
                metric.name,
                metric.unit,
                cell(metric.says.trim())
            );
        }
    }
    page
}

fn exit_codes() -> String {
    let mut page = "## Exit codes\n\n| code | means |\n|---|---|\n".to_owned();
    for line in EXIT_CODES.lines().skip(1) {
        let (code, means) = line.trim().split_once("  ").expect("a code and what it means");
        let _ = writeln!(page, "| {code} | {} |", means.trim());
    }
    page + "\n[scripts.md](scripts.md#exit-codes) says which command has which. `linerate path` has its command's code.\n"
}

fn gates() -> String {
    let mut page = format!(
        "## Gates\n\n`--fail-if` takes a figure, `<`, `<=`, `>` or `>=`, and a bound: {EXAMPLES}. \
         [scripts.md](scripts.md#gates) has more.\n\n| figure | unit | is |\n|---|---|---|\n"
    );
    let latency = "us, ms, s";
    let _ = writeln!(
        page,
        "| `p50`, `p99.9`, any `pN` | {latency} | latency from when a request was due |"
    );
    for (name, _, unit, says) in FIGURES {
        let _ = writeln!(page, "| `{name}` | {unit} | {says} |");
    }
    let stations: Vec<String> =
        station_ids().map(|id| format!("`{}`", id.replace('_', "-"))).collect();
    let _ = writeln!(
        page,
        "| {} | % | of the requests under way, the share at this station ([account.md](account.md)) |",
        stations.join(", ")
    );
    page + "| `limit` | | the limit's name, or `unexplained`: `limit=` or `limit!=`, `*` for anything, a comma between several |\n"
}

#[test]
fn the_reference_is_what_the_code_says() {
    let page = page();
    // As snapshots of the reports are blessed.
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(file("docs/reference.md"), &page).unwrap();
    }
    let written = text("docs/reference.md");
    let differs = written.lines().zip(page.lines()).find(|(written, made)| written != made);
    assert!(
        written == page,
        "docs/reference.md is not what the code says: run `make bless`; {differs:?}"
    );
}
