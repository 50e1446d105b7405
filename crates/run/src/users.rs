//! What users say, in a form that another process can be told.

use std::path::PathBuf;
use std::sync::Arc;

use linerate_engine::{Tls, Trust};
use linerate_session::{BadSettings, Protocol, Settings, kind};
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::runner::tls_with;

/// See the module.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Speaks {
    /// Its name: one of [`linerate_session::PROTOCOLS`].
    pub protocol: String,
    /// Who users are.
    pub settings: Settings,
    /// TLS inside of the protocol; none: it has none.
    pub tls: Option<UsersTls>,
}

/// TLS with a server of a name.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct UsersTls {
    /// What its certificate is to be for.
    pub name: String,
    /// The file of those that are trusted; none: as this host does.
    pub file: Option<PathBuf>,
    /// Everybody is trusted.
    pub anybody: bool,
}

impl Speaks {
    /// The protocol.
    pub fn protocol(&self) -> Result<Arc<dyn Protocol>, BadSettings> {
        let kind =
            kind(&self.protocol).ok_or_else(|| BadSettings::NoProtocol(self.protocol.clone()))?;
        (kind.protocol)(&self.settings)
    }

    /// How to speak TLS, where it does.
    pub fn tls(&self) -> Result<Option<Tls>, RunError> {
        let Some(UsersTls { name, file, anybody }) = &self.tls else { return Ok(None) };
        let trust = match file {
            _ if *anybody => Trust::Anybody,
            Some(file) => Trust::File(file.clone()),
            None => Trust::Host,
        };
        tls_with(name, &trust).map(Some)
    }
}
