//! The evidence file on disk: written line by line as the run goes, so a crash loses nothing before it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use linerate_evidence::{Evidence, Header, Line, to_line};
use linerate_model::Timestamp;

use crate::error::RunError;

/// A file being written.
pub struct EvidenceFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl EvidenceFile {
    /// Creates it with its header.
    pub fn create(path: &Path, header: &Header) -> Result<Self, RunError> {
        let file = File::create(path)
            .map_err(|error| RunError::Unwritable { path: path.to_owned(), error })?;
        let mut file = Self { path: path.to_owned(), file: BufWriter::new(file) };
        file.write(&Line::Header(Box::new(header.clone())))?;
        Ok(file)
    }

    /// Adds a line.
    pub fn write(&mut self, line: &Line) -> Result<(), RunError> {
        let written = self.file.write_all(to_line(line).as_bytes());
        self.check(written)
    }

    /// Adds samples, and sends all to the disk.
    pub fn write_samples(&mut self, samples: &Evidence) -> Result<(), RunError> {
        for (at, of, values) in samples.rows() {
            let values = values.into_iter().map(|(name, raw)| (name.to_owned(), raw)).collect();
            self.write(&Line::Row { at, of, values })?;
        }
        for (of, facts) in samples.facts() {
            self.write(&Line::Facts { of: *of, facts: facts.clone() })?;
        }
        for (source, reason) in &samples.unread {
            self.write(&Line::Unread { source: source.clone(), reason: reason.clone() })?;
        }
        let flushed = self.file.flush();
        self.check(flushed)
    }

    /// Adds the end.
    pub fn end(mut self, at: Timestamp, reason: &str) -> Result<(), RunError> {
        self.write(&Line::End { at, reason: reason.to_owned() })?;
        let flushed = self.file.flush();
        self.check(flushed)
    }

    fn check(&self, result: std::io::Result<()>) -> Result<(), RunError> {
        result.map_err(|error| RunError::Unwritten { path: self.path.clone(), error })
    }
}
