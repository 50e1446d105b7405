//! Commands: started, waited for, watched, and ended with all that they started.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_lab::{Lab, LayError, Options};
use support::{knobs, lay, lives, plan, python, refused, running, soon};

#[test]
fn a_server_is_started_on_a_free_port_answers_and_is_gone_afterwards() {
    let lab = lay(&python("")).unwrap();
    let facts = lab.facts();
    let pid = facts.pid.unwrap();
    assert_eq!((facts.kind.as_str(), facts.local), ("command", true));
    assert_eq!(facts.address, lab.address().to_string());
    assert!(facts.name.starts_with("python3 -m http.server"), "{}", facts.name);
    assert!(facts.cpus.unwrap() >= 1);

    let mut stream = TcpStream::connect(lab.address()).unwrap();
    stream.write_all(b"HEAD / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");

    lab.close().unwrap();
    assert!(!lives(pid));
}

#[test]
fn a_drop_takes_it_away_as_well() {
    let lab = lay(&python("")).unwrap();
    let pid = lab.facts().pid.unwrap();
    drop(lab);
    assert!(!lives(pid));
}

#[test]
fn it_is_confined_to_the_cpus_of_the_plan() {
    let lab = lay(&python("cpus = [0]")).unwrap();
    assert_eq!(lab.facts().cpus, Some(1));
    let error = refused(&python("cpus = [0, 999]"));
    assert!(
        error.starts_with("target.cpus [0, 999] are not available: write some of 0"),
        "{error}"
    );
}

#[test]
fn it_may_open_as_many_descriptors_as_the_plan_says_and_linerate_keeps_its_own() {
    let ours = std::fs::read_to_string("/proc/self/limits").unwrap();
    let lab = lay(&python("descriptors = 77")).unwrap();
    let limits =
        std::fs::read_to_string(format!("/proc/{}/limits", lab.facts().pid.unwrap())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<_> = line.split_whitespace().filter(|word| *word == "77").collect();
    assert_eq!(numbers.len(), 2, "soft and hard: {line}");
    assert_eq!(std::fs::read_to_string("/proc/self/limits").unwrap(), ours);
}

#[test]
fn one_that_dies_first_is_told_with_its_status_and_last_words() {
    let error = refused(&plan("command = ['false']\nport = 18081"));
    assert_eq!(
        error,
        "`false` ended with exit status 1 before it listened on port 18081; it said nothing"
    );
    let error = refused(&plan(
        "command = ['sh', '-c', 'for n in 1 2 3 4; do echo line $n >&2; done; exit 7']\nport = 18082",
    ));
    assert!(error.contains("exit status 7"), "{error}");
    assert!(error.ends_with("; its last words: line 2 / line 3 / line 4"), "{error}");
}

#[test]
fn one_that_never_listens_is_told_after_ten_seconds_and_ended() {
    let began = Instant::now();
    let error = refused(&plan("command = ['sleep', '60.4711']\nport = 18083"));
    assert!(began.elapsed() < Duration::from_secs(12));
    assert_eq!(
        error,
        "`sleep 60.4711` does not listen on port 18083 after 10s: nothing of it listens anywhere; \
         write in target.command what makes it listen on 18083; it said nothing"
    );
    assert!(running("sleep 60.4711").is_empty());
}

#[test]
fn one_that_listens_elsewhere_is_told_where() {
    let error = refused(&plan(
        "command = ['python3', '-u', '-m', 'http.server', '--bind', '127.0.0.1', '18085']\nport = 18084",
    ));
    assert!(error.contains("it listens on 127.0.0.1:18085; write target.port = 18085"), "{error}");
}

#[test]
fn a_wish_to_stop_is_heard_within_100_ms_and_leaves_nothing() {
    let cancel = Arc::new(AtomicBool::new(false));
    let setter = std::thread::spawn({
        let cancel = Arc::clone(&cancel);
        move || {
            std::thread::sleep(Duration::from_millis(300));
            cancel.store(true, Ordering::Relaxed);
            Instant::now()
        }
    });
    let options = Options { cancel: Some(cancel), ..Options::default() };
    let plan = plan("command = ['sleep', '60.4712']\nport = 18086");
    let error = Lab::lay(&plan, &options).unwrap_err();
    let took = Instant::now() - setter.join().unwrap();
    assert_eq!(error, LayError::Interrupted);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(running("sleep 60.4712").is_empty());
}

#[test]
fn what_is_no_program_is_told_with_what_to_do() {
    assert_eq!(
        refused(&plan("command = ['no-such-program-4711']\nport = 18087")),
        "`no-such-program-4711` can't be started: it is not in PATH; install it, or write its path \
         as the first word of target.command"
    );
    let error = refused(&plan("command = ['/no/such/file']\nport = 18087"));
    assert!(error.contains("there is no such file"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("serve");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let words = plan(&format!("command = ['{}']\nport = 18087", script.display()));
    let error = refused(&words);
    assert!(error.contains("it is not executable; run `chmod +x` on it"), "{error}");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = refused(&words);
    assert!(error.contains("the interpreter in its first line is not there"), "{error}");
}

#[test]
fn a_port_in_use_is_told_with_who_has_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = refused(&plan(&format!("command = ['sleep', '1']\nport = {port}")));
    let ours = format!("port {port} is in use by process {} (", std::process::id());
    assert!(error.starts_with(&ours), "{error}");
}

#[test]
fn a_command_must_say_where_it_listens_and_its_knobs_must_have_a_place() {
    assert_eq!(lay(&plan("command = ['true']")).unwrap_err(), LayError::NoPort);
    let error = refused(&plan("command = ['true']\nport = 18088\nknobs = { workers = '4' }"));
    assert_eq!(
        error,
        "`workers` is not a knob of the command: no word has `{workers}` to put its value for; \
         write it there or remove the knob"
    );
}

#[test]
fn a_variant_restarts_it_with_the_other_value_and_the_same_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::create_dir(folder.path().join("b")).unwrap();
    let mut lab = lay(&plan(&format!(
        "command = ['python3', '-m', 'http.server', '--bind', '127.0.0.1', '-d', '{}/{{folder}}', '{{port}}']\n\
         knobs = {{ folder = 'a' }}",
        folder.path().display()
    )))
    .unwrap();
    let first = lab.facts().pid.unwrap();
    assert_eq!(lab.knobs()[0].name, "folder");
    assert_eq!(lab.facts().turnable["folder"], Vec::<String>::new());

    lab.variant(&knobs(&[])).unwrap();
    assert_eq!(lab.facts().pid, Some(first));
    let address = lab.variant(&knobs(&[("folder", "b")])).unwrap();
    assert_eq!(address, lab.address());
    assert!(TcpStream::connect(address).is_ok());
    assert!(!lives(first));
    assert!(lab.facts().name.contains("/b"), "{}", lab.facts().name);
    assert_eq!(lab.facts().knobs["folder"], "b");

    let error = lab.variant(&knobs(&[("colour", "red")])).unwrap_err().to_string();
    assert_eq!(error, "`colour` is not a knob of the command: write one of folder");
}

#[test]
fn one_that_dies_later_is_told_each_time_it_is_asked() {
    let mut lab = lay(&python("")).unwrap();
    assert_eq!(lab.alive(), Ok(()));
    let pid = lab.facts().pid.unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    assert!(soon(|| lab.alive().is_err()));
    let said = lab.alive().unwrap_err();
    assert!(said.contains("http.server") && said.contains("ended with signal 9; "), "{said}");
    assert_eq!(lab.alive(), Err(said));
}

#[test]
fn children_in_sessions_of_their_own_go_too() {
    let lab = lay(&plan(
        "command = ['sh', '-c', 'setsid sleep 60.4713 & sleep 60.4714 & exec python3 -m http.server --bind 127.0.0.1 {port}']",
    ))
    .unwrap();
    assert!(soon(|| running("sleep 60.471").len() >= 2));
    lab.close().unwrap();
    assert!(running("sleep 60.4713").is_empty() && running("sleep 60.4714").is_empty());
}

#[test]
fn one_that_goes_into_the_background_is_found_watched_and_ended() {
    // The shell ends at once; the server is an orphan in another session, as a daemon is.
    let mut lab = lay(&plan(
        "command = ['sh', '-c', 'setsid python3 -m http.server --bind 127.0.0.1 {port} & exit 0']",
    ))
    .unwrap();
    let pid = lab.facts().pid.unwrap();
    assert!(lives(pid));
    assert!(lab.facts().cpus.is_some());
    assert_eq!(lab.alive(), Ok(()));
    lab.close().unwrap();
    assert!(!lives(pid));
}

#[test]
fn one_that_does_not_heed_a_polite_end_is_killed() {
    let lab = lay(&plan(
        "command = ['sh', '-c', 'trap \"\" TERM; python3 -m http.server --bind 127.0.0.1 {port}; sleep 60.4715']",
    ))
    .unwrap();
    let pid = lab.facts().pid.unwrap();
    let began = Instant::now();
    lab.close().unwrap();
    assert!(!lives(pid) && running("sleep 60.4715").is_empty());
    assert!(began.elapsed() < Duration::from_secs(4));
}
