//! Writes sample pages for `tests/page`, each with what must be seen on it.
//!
//! `cargo run -p linerate-report --example pages -- OUTDIR`

use std::path::PathBuf;

use linerate_report::{Document, FORMATS, Look};

#[path = "../tests/samples/mod.rs"]
mod samples;

#[allow(clippy::disallowed_methods, reason = "it is the caller who writes")]
fn main() -> std::io::Result<()> {
    let out = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "pages".into()));
    std::fs::create_dir_all(&out)?;
    let pages = [
        ("run", Document::Run(Box::new(samples::nagle()))),
        ("pool", Document::Run(Box::new(samples::pool()))),
        ("overload", Document::Run(Box::new(samples::overloaded()))),
        ("void", Document::Run(Box::new(samples::void()))),
        ("hostile", Document::Run(Box::new(samples::hostile()))),
        ("climb", Document::Climb(samples::climb())),
        ("study", Document::Study(samples::study())),
        ("link", Document::Study(samples::link())),
        ("users", Document::Study(samples::users())),
        ("scan", Document::Study(samples::scan())),
        ("doctor", Document::Doctor(Box::new(samples::doctor()))),
    ];
    for (name, document) in &pages {
        for format in FORMATS {
            let path = out.join(format!("{name}.{}", format.extension));
            std::fs::write(path, (format.render)(document, &Look::default()))?;
        }
    }
    Ok(())
}
