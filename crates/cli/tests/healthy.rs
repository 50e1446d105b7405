//! Healthy services, from one connection to hundreds: no defect is named.
//!
//! One test, so that no two loads run at once.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

mod sound;

const NGINX: &str = "fixtures/nginx/serve.sh {port} 13 1";

#[test]
fn twenty_healthy_runs_name_no_defect() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut defects = Vec::new();
    for connections in ["1", "2", "10", "50", "200"] {
        for target in [
            &["--command", NGINX, "/body"][..],
            &["--beam", "http"],
            &["--beam", "http", "-k", "nodelay=on", "-k", "active=passive"],
            &["--beam", "httpd", "-k", "nodelay=on"],
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
                .current_dir(&root)
                .args(["run", "--json", "-q", "-d", "1s", "-c", connections])
                .args(target)
                .output()
                .unwrap();
            let run: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
            let by = run["verdict"]["by"].as_str().unwrap_or("none").to_owned();
            println!("{:<60} -c {connections:<4} {by}", target.join(" "));
            sound::assert_sound(&run);
            let roofs = run["roofline"]["roofs"].as_array().unwrap();
            let is_named = |roof: &&Value| roof["id"] == by.as_str();
            let is_defect = roofs.iter().find(is_named).is_some_and(|r| r["kind"] == "defect");
            if is_defect {
                defects.push(format!("{} -c {connections}: {by}", target.join(" ")));
            }
        }
    }
    assert!(defects.is_empty(), "{}", defects.join("\n"));
}
