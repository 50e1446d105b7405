//! Against servers of others, as Debian has them: ejabberd (XMPP, and MQTT too) and mosquitto (MQTT).
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_model::Bytes;
use linerate_session::{
    Act, Cause, Doing, Event, Mechanism, Protocol, Quality, Session, Settings, Token, UserId, kind,
};

/// Until an answer must be there. A server on a busy machine may take its time.
const PATIENCE: Duration = Duration::from_secs(20);

/// One user with a socket that blocks.
struct User {
    socket: TcpStream,
    session: Box<dyn Session>,
    events: Vec<Event>,
}

impl User {
    fn connect(protocol: &Arc<dyn Protocol>, user: u32, port: u16) -> Self {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let session = Arc::clone(protocol).session(UserId(user));
        let mut user = Self { socket, session, events: Vec::new() };
        let mut out = Vec::new();
        user.session.connected(&mut out);
        user.socket.write_all(&out).unwrap();
        user
    }

    /// Logged in.
    fn online(protocol: &Arc<dyn Protocol>, user: u32, port: u16) -> Self {
        let mut user = Self::connect(protocol, user, port);
        user.expect(&Event::Online);
        user
    }

    fn act(&mut self, act: Act, token: u64) {
        let mut out = Vec::new();
        self.session.act(act, Token(token), &mut out).unwrap();
        self.socket.write_all(&out).unwrap();
    }

    /// Takes the next event.
    fn event(&mut self) -> Event {
        let mut buffer = [0; 4096];
        while self.events.is_empty() {
            let read = self.socket.read(&mut buffer).unwrap();
            assert!(read > 0, "the server closed the connection");
            let mut out = Vec::new();
            self.session.received(&buffer[..read], &mut out, &mut self.events).unwrap();
            self.socket.write_all(&out).unwrap();
        }
        self.events.remove(0)
    }

    fn expect(&mut self, event: &Event) {
        assert_eq!(self.event(), *event);
    }

    /// Leaves; the server closes.
    fn close(mut self) {
        let mut out = Vec::new();
        self.session.close(&mut out);
        self.socket.write_all(&out).unwrap();
        match self.socket.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
}

/// Two users log in, do all that the protocol has, and leave.
fn talk(name: &str, settings: &Settings, port: u16) {
    let kind = kind(name).unwrap();
    let protocol = (kind.protocol)(settings).unwrap();
    let mut one = User::online(&protocol, 1, port);
    let mut two = User::online(&protocol, 2, port);
    for user in [&mut one, &mut two] {
        user.act(Act::Ping, 1);
        user.expect(&Event::Answered(Doing::Ping, Token(1)));
    }
    for (token, size) in [(u64::MAX, 100), (3, 20_000)] {
        one.act(Act::Message { to: UserId(2), size: Bytes(size) }, token);
        two.expect(&Event::Delivered(Some(Token(token))));
        if settings.quality == Quality::AtLeastOnce {
            one.expect(&Event::Answered(Doing::Message, Token(token)));
        }
    }
    if kind.acts.contains(&Doing::Presence) {
        two.act(Act::Presence, 4);
        two.expect(&Event::Answered(Doing::Presence, Token(4)));
    }
    assert_eq!((one.session.held(), two.session.held()), (Bytes(0), Bytes(0)));
    one.close();
    two.close();
}

/// Of a user whose password is another.
fn is_refused(name: &str, settings: &Settings, port: u16) {
    let settings = Settings { passwords: "wrong{n}".parse().unwrap(), ..settings.clone() };
    let protocol = (kind(name).unwrap().protocol)(&settings).unwrap();
    match User::connect(&protocol, 1, port).event() {
        Event::Refused(reason) => assert_eq!(reason.cause, Cause::Credentials, "{reason:?}"),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn ejabberd_speaks_xmpp_by_each_mechanism_and_mqtt() {
    let ejabberd = Ejabberd::start(3);
    let port = ejabberd.port("xmpp");
    for mechanism in
        [None, Some(Mechanism::Plain), Some(Mechanism::ScramSha1), Some(Mechanism::ScramSha256)]
    {
        let settings = Settings { mechanism, ..Settings::default() };
        talk("xmpp", &settings, port);
        is_refused("xmpp", &settings, port);
    }
    let protocol = (kind("xmpp").unwrap().protocol)(&Settings::default()).unwrap();
    let mut user = User::online(&protocol, 1, port);
    user.act(Act::Message { to: UserId(99), size: Bytes(20) }, 5);
    match user.event() {
        Event::Declined(Doing::Message, Token(5), _) => {}
        other => panic!("a message to nobody: {other:?}"),
    }
    // Whoever logs in again takes the place of the first.
    let again = User::online(&protocol, 1, port);
    match user.event() {
        Event::Ended(reason) => assert_eq!(reason.cause, Cause::Replaced),
        other => panic!("{other:?}"),
    }
    again.close();

    let port = ejabberd.port("mqtt");
    for quality in [Quality::AtMostOnce, Quality::AtLeastOnce] {
        talk("mqtt", &Settings { quality, ..Settings::default() }, port);
    }
    is_refused("mqtt", &Settings::default(), port);
}

#[test]
fn mosquitto_speaks_mqtt() {
    let mosquitto = Mosquitto::start(3);
    for quality in [Quality::AtMostOnce, Quality::AtLeastOnce] {
        talk("mqtt", &Settings { quality, ..Settings::default() }, mosquitto.port);
    }
    is_refused("mqtt", &Settings::default(), mosquitto.port);
}

/// As `fixtures/nodes` runs it; it ends with its handle.
struct Ejabberd {
    serve: Child,
    told: serde_json::Value,
}

impl Ejabberd {
    fn start(users: u32) -> Self {
        let serve = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nodes/serve");
        let mut serve = Command::new(serve)
            .args(["ejabberd", "--users", &users.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(serve.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "ejabberd did not start; its output is above");
        Self { serve, told: serde_json::from_str(&line).unwrap() }
    }

    fn port(&self, name: &str) -> u16 {
        self.told["ports"][name].as_u64().unwrap().try_into().unwrap()
    }
}

impl Drop for Ejabberd {
    fn drop(&mut self) {
        drop(self.serve.stdin.take());
        self.serve.wait().unwrap();
    }
}

/// In a folder of its own; it ends with its handle.
struct Mosquitto {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Mosquitto {
    fn start(users: u32) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("mosquitto.{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = |name: &str| folder.join(name);
        let settings = Settings::default();
        let account = |user| {
            let user = UserId(user);
            format!("{}:{}\n", settings.users.of(user), settings.passwords.of(user))
        };
        std::fs::write(file("passwords"), (0..users).map(account).collect::<String>()).unwrap();
        // As it is in the file, a password is not read.
        let hashed = Command::new("mosquitto_passwd").arg("-U").arg(file("passwords")).status();
        assert!(hashed.expect("mosquitto is there: .ci/setup").success());

        let port = {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            free.local_addr().unwrap().port()
        };
        // Without a word about it, root becomes a user who may not read the folder.
        let name = Command::new("id").arg("-un").output().unwrap().stdout;
        let configuration = format!(
            "listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {}\nuser {}",
            file("passwords").display(),
            String::from_utf8(name).unwrap()
        );
        std::fs::write(file("mosquitto.conf"), configuration).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut child = Command::new("mosquitto")
            .arg("-c")
            .arg(file("mosquitto.conf"))
            .env("PATH", format!("{path}:/usr/sbin"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "mosquitto ended at once");
            assert!(Instant::now() < deadline, "mosquitto does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port, folder }
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
