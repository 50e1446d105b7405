//! What of a plan is nobody's business who reads a report: passwords, tokens, keys.
//!
//! Known by the names of headers and of a path's parameters; what a body holds is not looked at.

use crate::plan::{Plan, Workload};

/// What stands for a secret.
pub const REDACTED: &str = "<redacted>";

/// The same in a path, which may not have these brackets.
const REDACTED_IN_A_PATH: &str = "redacted";

/// A name with one of these in it is a secret's. Lower case, without `-` and `_`.
/// Source: headers and parameters of RFC 6750, 7617, 6265, of AWS, Azure, Google Cloud, GitHub and GitLab.
const PARTS: [&str; 13] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "passw",
    "apikey",
    "accesskey",
    "privatekey",
    "authkey",
    "functionskey",
    "credential",
    "signature",
    "session",
];

/// A name that is one of these is.
const WHOLE: [&str; 8] = ["auth", "xauth", "pwd", "pass", "sig", "jwt", "sid", "xkey"];

impl Plan {
    /// The same plan without its secrets: for evidence, events and reports.
    pub fn redacted(&self) -> Self {
        let mut plan = self.clone();
        if let Workload::Http { path, headers, also, .. } = &mut plan.workload {
            for (name, value) in headers.iter_mut() {
                if is_secret(name) {
                    REDACTED.clone_into(value);
                }
            }
            *path = without_secrets(path);
            for one in also {
                one.path = without_secrets(&one.path);
            }
        }
        plan
    }
}

/// Whether a header or a parameter of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_ascii_lowercase();
    PARTS.iter().any(|part| plain.contains(part)) || WHOLE.contains(&plain.as_str())
}

/// A path whose query's secrets are left out.
fn without_secrets(path: &str) -> String {
    let Some((before, query)) = path.split_once('?') else { return path.to_owned() };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if is_secret(name) => format!("{name}={REDACTED_IN_A_PATH}"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{before}?{}", pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_left_out_and_the_rest_stays() {
        let plan = Plan::from_toml(
            "[target]\naddress = 'a:1'\n[workload]\nkind = 'http'\n\
             path = '/x?user=7&api_key=k-1&X-Amz-Signature=f00&page=2'\n\
             headers = [['Authorization', 'Bearer t-1'], ['cookie', 'id=c-1'], ['X-Api-Key', 'k-2'],\n\
             ['Accept', 'text/html'], ['X-Author', 'me'], ['Idempotency-Key', '8']]\n\
             also = [{ path = '/y?token=t-2', weight = 3 }]\n",
        )
        .unwrap();
        let redacted = plan.redacted();
        let Workload::Http { path, headers, also, .. } = &redacted.workload else { panic!("http") };
        assert_eq!(also[0].path, "/y?token=redacted");
        assert_eq!(path, "/x?user=7&api_key=redacted&X-Amz-Signature=redacted&page=2");
        let values: Vec<_> = headers.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, [REDACTED, REDACTED, REDACTED, "text/html", "me", "8"]);
        // It is a plan still: evidence is read back as one.
        assert_eq!(Plan::from_toml(&redacted.to_toml()), Ok(redacted));
    }
}
