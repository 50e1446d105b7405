//! A study of users in small: what it holds is counted, and no speed is claimed.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;

mod schemas;

/// A study of a few users, with a server that nobody has.
const OF_USERS: &str = r#"
name = "few"
about = "A few users."
published = "published.csv"
memory = "64MiB"
flags = ["--levels", "3", "--settle", "1100ms", "--hold=1s", "--mix", "idle=50,active=50@exp:300ms"]
rounds = 1
[short]
says = "nothing is left out"

[[climbs]]
name = "chat"
for = "server"
flags = ["--beam", "chat", "-c", "300"]

[[climbs]]
name = "ejabberd"
for = "server"
flags = [
    "xmpp://127.0.0.1:{xmpp}", "--node", "{node}", "--node-port", "{dist}", "--cookie-file", "{cookie_file}",
    "--mechanism", "plain", "-c", "150",
]
service = ["SERVE", "ejabberd", "--users", "{users}"]
[[climbs.needs]]
program = "ejabberdctl"
install = "apt-get install ejabberd"

[[climbs]]
name = "missing"
for = "server"
flags = ["xmpp://127.0.0.1:{xmpp}", "-c", "150"]
service = ["no-such-program"]
[[climbs.needs]]
program = "no-such-program"
install = "it is not installed: write it first"

[[climbs]]
name = "chat, 256 descriptors"
for = "limit"
flags = ["--beam", "chat", "-c", "400", "-k", "target.descriptors=256", "--timeout", "2s"]

[[climbs]]
name = "chat, as it comes"
for = "turned"
flags = ["--beam", "chat", "-c", "600", "--mix", "idle=100"]

[[climbs]]
name = "chat, large buffers"
for = "turned"
beside = "chat, as it comes"
flags = ["--beam", "chat", "-c", "600", "--mix", "idle=100", "-k", "active=once", "-k", "buffer=16384"]

[[settings]]
says = "polling"
published = ["K", "default"]
today = "always on"

[[claims]]
kind = "limit"
says = "Descriptors are met"
climb = "chat, 256 descriptors"
by = "target.descriptors"

[[claims]]
kind = "effect"
says = "Large buffers cost users"
climb = "chat, large buffers"
most = 0.8

[[claims]]
kind = "holds"
says = "What is not there holds nobody"
climb = "missing"
least = 1
"#;

#[test]
fn users_of_two_servers_are_held_their_limits_named_and_a_setting_weighed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let serve = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nodes/serve");
    std::fs::write(file("few.toml"), OF_USERS.replace("SERVE", serve)).unwrap();
    let published = "# of others\nos,settings,users\nX,default,100\nX,K,134\n";
    std::fs::write(file("published.csv"), published).unwrap();
    let study = |more: &[&str], json: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .arg("study")
            .arg(file("few.toml"))
            .args(["-q", "-o", json, "-o", "few.html"])
            .args(more)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let text = std::fs::read_to_string(file(json)).unwrap();
        let study: Value = serde_json::from_str(&text).unwrap();
        schemas::assert_as_promised("study", &study);
        (study, said)
    };
    let (first, said) = study(&[], "few.json");
    let users = &first["users"];
    let climb = |series: &str| {
        let climbs = users["climbs"].as_array().unwrap();
        let found = climbs.iter().find(|climb| climb["series"] == series);
        &found.unwrap_or_else(|| panic!("{series}: {said}"))["held"]
    };
    assert_eq!((&climb("chat")["held"], &climb("ejabberd")["held"]), (&300.into(), &150.into()));
    for (server, kind) in
        [("chat", "vm.total"), ("ejabberd", "vm.total"), ("ejabberd", "target.rss")]
    {
        let costs = climb(server)["costs"].as_array().unwrap();
        assert!(costs.iter().any(|cost| cost["kind"] == kind), "{server}: {kind}");
    }
    assert!(
        says(&first, "Descriptors are met") && says(&first, "Large buffers cost users"),
        "{said}"
    );
    // A read buffer that is kept while nothing comes, by each user.
    let effect = &users["effects"][0];
    let (bytes, within) = (&effect["vm"]["bytes"], &effect["vm"]["within"]);
    let (bytes, within) = (bytes.as_f64().unwrap(), within.as_f64().unwrap());
    assert!(bytes + within > 16_000.0 && bytes - within < 20_000.0, "{effect:#}");
    let left_out = users["left_out"].as_array().unwrap();
    let expected = "missing was not measured: it is not installed: write it first";
    assert_eq!(left_out, &[Value::from(expected)], "{said}");
    assert!(said.contains(expected), "{said}");
    assert_eq!(users["settings"][0]["then"], "x1.34 users (X)");
    let page = std::fs::read_to_string(file("few.html")).unwrap();
    assert!(page.contains(r#"id="climb-1""#), "both servers are drawn");

    // What is there is kept, and no server is started again.
    let began = std::time::Instant::now();
    let (second, _) = study(&["--resume", "few.json"], "again.json");
    assert_eq!(second["users"]["climbs"], users["climbs"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Whether the claim that begins so held.
fn says(study: &Value, begins: &str) -> bool {
    let claims = study["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["says"].as_str().unwrap().starts_with(begins));
    claim.unwrap()["held"].as_bool().unwrap()
}
