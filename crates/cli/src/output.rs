//! Where reports go: standard output in one format, files by their endings.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use linerate_report::{Document, FORMATS, Format, Look};

use crate::args::OutputArgs;
use crate::failure::Failure;
use crate::progress::{Progress, Show};

/// Checked before the run, so that a long one does not end in a typing error.
pub struct Output {
    printed: &'static Format,
    files: Vec<(PathBuf, &'static Format)>,
    /// Where the evidence goes.
    pub evidence: Option<PathBuf>,
    stream: bool,
    look: Look,
}

impl Output {
    /// What the flags ask for.
    pub fn new(args: &OutputArgs) -> Result<Self, Failure> {
        let word = match (&args.format, args.json) {
            (Some(word), _) => word.as_str(),
            (None, true) => "json",
            (None, false) => "text",
        };
        let printed = FORMATS.iter().find(|format| format.name == word).ok_or_else(|| {
            Failure::plan(format!(
                "--format: `{word}` is not a format: write {}",
                names(|format| format.name)
            ))
        })?;
        let mut files = Vec::new();
        let mut evidence = None;
        for path in &args.output {
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("jsonl" | "ndjson") => {
                    if let Some(other) = evidence.replace(path.clone()) {
                        return Err(Failure::plan(format!(
                            "-o {} and -o {}: the evidence goes to one file: keep one",
                            other.display(),
                            path.display()
                        )));
                    }
                }
                ending => {
                    let format = FORMATS
                        .iter()
                        .find(|format| Some(format.extension) == ending)
                        .ok_or_else(|| {
                            Failure::plan(format!(
                                "-o {}: its ending sets the format: write one of .{}, .jsonl (evidence)",
                                path.display(),
                                names(|format| format.extension).replace(", ", ", .")
                            ))
                        })?;
                    files.push((path.clone(), format));
                }
            }
            // Found out now rather than after the run.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder {
                std::fs::create_dir_all(folder).map_err(|error| {
                    Failure::run(format!("{}: cannot be made: {error}", folder.display()))
                })?;
            }
            let beside = beside(path);
            let tried = match path.is_dir() {
                true => Err(std::io::ErrorKind::IsADirectory.into()),
                false => std::fs::write(&beside, "").and_then(|()| std::fs::remove_file(&beside)),
            };
            tried.map_err(|error| cannot_write(path, &error))?;
        }
        let no_color =
            args.no_color || std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        let colour = !no_color && std::io::stdout().is_terminal();
        let look = Look { colour, verbose: args.verbose, ..Look::default() };
        Ok(Self { printed, files, evidence, stream: args.json_stream, look })
    }

    /// Refuses evidence where there is not one run to write it of.
    pub fn without_evidence(self, why: &str) -> Result<Self, Failure> {
        match &self.evidence {
            None => Ok(self),
            Some(path) => Err(Failure::plan(format!(
                "-o {}: evidence is what a single run writes, and {why}: write another ending",
                path.display()
            ))),
        }
    }

    /// Progress as the flags ask for it.
    pub fn progress(&self, args: &OutputArgs) -> Progress {
        Progress::new(match (self.stream, args.quiet) {
            (true, _) => Show::Events,
            (false, true) => Show::Nothing,
            (false, false) => Show::Lines,
        })
    }

    /// Prints and writes a document.
    pub fn write(&self, document: &Document) -> Result<(), Failure> {
        let look = self.look;
        for (path, format) in &self.files {
            let text = (format.render)(document, &Look { colour: false, ..look });
            write_file(path, &text)?;
        }
        if self.stream {
            let json = FORMATS.iter().find(|format| format.name == "json");
            let text = json.map_or(String::new(), |json| (json.render)(document, &look));
            let data: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let line = serde_json::json!({ "event": "report", "data": data });
            return print(&format!("{line}\n"));
        }
        print(&(self.printed.render)(document, &look))?;
        if self.printed.name == "text" {
            for (path, _) in &self.files {
                say(&format!("written: {}\n", path.display()));
            }
        }
        Ok(())
    }
}

fn names(of: impl Fn(&Format) -> &'static str) -> String {
    FORMATS.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Writes a file whole or not at all: a full disk leaves the one before.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = beside(path);
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        cannot_write(path, &error)
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    PathBuf::from(beside)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::run(format!("{}: cannot be written: {error}", path.display()))
}

/// Prints; a reader that went away (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes to standard error, whether or not anybody reads it: `eprintln!` would panic (`2>&1 | head`).
pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
