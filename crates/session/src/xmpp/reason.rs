//! What an error of a server says, and what it counts as.

use super::xml::Element;
use super::{CLIENT, STANZA_ERRORS};
use crate::session::{Cause, Reason};

pub(super) fn reason_in_stanza(stanza: &Element) -> Reason {
    match stanza.child("error", CLIENT) {
        Some(error) => reason(error, STANZA_ERRORS),
        None => Reason { cause: Cause::Other, said: "an error without a condition".to_owned() },
    }
}

/// What an error says: a condition, and perhaps a text.
pub(super) fn reason(error: &Element, namespace: &str) -> Reason {
    let mut condition = "an error without a condition";
    let mut said = None;
    for child in error.children.iter().filter(|child| *child.namespace == *namespace) {
        match child.name.as_str() {
            "text" => said = Some(child.text.trim()),
            name => condition = name,
        }
    }
    let cause = match condition {
        "not-authorized" | "invalid-authzid" | "credentials-expired" => Cause::Credentials,
        "account-disabled" | "not-allowed" | "forbidden" => Cause::NotAllowed,
        "resource-constraint" | "policy-violation" | "temporary-auth-failure" => Cause::Overloaded,
        "conflict" => Cause::Replaced,
        "system-shutdown" | "reset" | "see-other-host" => Cause::Stopping,
        "invalid-mechanism"
        | "mechanism-too-weak"
        | "encryption-required"
        | "unsupported-version"
        | "unsupported-feature" => Cause::NothingInCommon,
        _ => Cause::Other,
    };
    let said = match said.filter(|text| !text.is_empty()) {
        Some(text) => format!("{condition}: {text}"),
        None => condition.to_owned(),
    };
    Reason { cause, said }
}
