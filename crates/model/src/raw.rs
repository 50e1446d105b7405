//! What `raw` says: the bytes of a request, and how its answer ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The bytes of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sent {
    /// This text, with escapes (`\r`, `\n`, `\t`, `\0`, `\\`, `\xNN`) and templates.
    Text(String),
    /// These bytes, two hexadecimal digits each; spaces between mean nothing.
    Hex(String),
    /// What this file holds, as it is.
    File(String),
    /// What was read of it; stands in no plan that is written.
    #[serde(skip)]
    Read(Arc<[u8]>),
}

/// How an answer ends. Exactly one of `text`, `bytes` and `length` is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// With this text, escapes in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The text comes so many times, the last at the end. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// After so many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Where a number in it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<LengthField>,
}

/// A number in an answer that says how long it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthField {
    /// Bytes in front of it.
    #[serde(default)]
    pub at: u32,
    /// Bytes of it, 1 to 8.
    #[serde(default = "four")]
    pub width: u8,
    /// Which of them comes first.
    #[serde(default)]
    pub endian: Endian,
    /// It counts what comes after so many bytes of the answer: 0 counts all of it. Absent: what comes after the
    /// number itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
}

// Chosen: what most protocols have.
fn four() -> u8 {
    4
}

impl Default for LengthField {
    fn default() -> Self {
        Self { at: 0, width: four(), endian: Endian::default(), from: None }
    }
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Endian {
    /// The most significant, as on the network.
    #[default]
    Big,
    /// The least.
    Little,
}
