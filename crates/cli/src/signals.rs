//! SIGINT and SIGTERM: remembered, and seen by everything that takes long.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Those of this process, once a command has asked for them.
static INSTALLED: OnceLock<Signals> = OnceLock::new();

/// What was received.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    which: Arc<AtomicUsize>,
}

impl Signals {
    /// From now on a first signal only sets flags; a second one ends the program where it stands.
    pub fn install() -> io::Result<Self> {
        let signals = Self::default();
        for (signal, code) in [(SIGINT, 130), (SIGTERM, 143)] {
            // Registered first, so that it acts only on a signal after the one that sets the flag.
            flag::register_conditional_shutdown(signal, code, Arc::clone(&signals.stop))?;
            flag::register_usize(signal, Arc::clone(&signals.which), code as usize)?;
            flag::register(signal, Arc::clone(&signals.stop))?;
        }
        Ok(INSTALLED.get_or_init(|| signals).clone())
    }

    /// For those who poll.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether one came.
    pub fn received(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The exit code it asks for.
    pub fn exit_code(&self) -> Option<u8> {
        u8::try_from(self.which.load(Ordering::Relaxed)).ok().filter(|code| *code > 0)
    }
}

/// The exit code that a signal to this process asks for, if one came.
pub fn exit_code() -> Option<u8> {
    INSTALLED.get().and_then(Signals::exit_code)
}
