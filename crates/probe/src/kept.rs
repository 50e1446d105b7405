//! A file of `/proc` that is kept open and read again from its beginning.
//!
//! Opening costs more than reading, and an open file of `/proc/net` goes on showing the network
//! namespace it was opened in.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file that could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub(crate) struct Unopened {
    path: PathBuf,
    error: io::Error,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

impl Kept {
    pub(crate) fn open(path: impl AsRef<Path>) -> Result<Self, Unopened> {
        let path = path.as_ref().to_owned();
        match File::open(&path) {
            Ok(file) => Ok(Self { path, file, buffer: vec![0; 4096] }),
            Err(error) => Err(Unopened { path, error }),
        }
    }

    /// The file as it is now.
    pub(crate) fn read(&mut self) -> Result<&[u8], Unopened> {
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            match self.file.read_at(&mut self.buffer[filled..], filled as u64) {
                Ok(0) => return Ok(&self.buffer[..filled]),
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Unopened { path: self.path.clone(), error }),
            }
        }
    }
}
