//! What a server may send, in whatever pieces: no panic, little is kept, and the pieces make no difference.
#![allow(clippy::unwrap_used)]

use linerate_model::Bytes;
use linerate_session::{Act, Event, Quality, Settings, Token, UserId, kind};

/// Words of a server, and what the user does when it has heard them.
type Part = (Vec<u8>, &'static [Act]);

const MESSAGE: Act = Act::Message { to: UserId(8), size: Bytes(30) };

/// Of each protocol: a login, acts, answers, messages, the end.
fn transcripts() -> Vec<(&'static str, Vec<Part>)> {
    let part = |bytes: &[u8], acts: &'static [Act]| (bytes.to_vec(), acts);
    let line = vec![
        part(b"ok\nhere user8\n", &[MESSAGE, Act::Ping, Act::Ping]),
        part(
            b"from user8 t=0000000000000009\nsaid\nerror refused\ngone user8\npong\nerror replaced\n",
            &[],
        ),
    ];
    let mqtt = vec![
        part(b"\x20\x02\0\0\x90\x03\0\x01\x01", &[MESSAGE, Act::Ping, MESSAGE]),
        part(
            b"\x32\x19\0\x01a\0\x09t=0000000000000009..\x40\x02\0\x03\xd0\0\
              \x30\x05\0\x01abc\x40\x02\0\x02\x30\x80\x01\0\x01a",
            &[],
        ),
        part(&[b'.'; 125], &[]),
    ];
    let header = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' id='1' version='1.0' \
         xmlns:stream='http://etherx.jabber.org/streams'>";
    let login = format!(
        "{header}<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
         <mechanism>PLAIN</mechanism></mechanisms></stream:features>\
         <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>\n{header}<stream:features>\
         <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>\
         <iq id='bind' type='result'/> <iq id='roster' type='result'/>\
         <presence id='p0000000000000000-7'/>"
    );
    let online = "<message id='a'><body>t=00000000&#48;0000009&#x2e;<![CDATA[..]]></body></message>\n\
         <iq type='result' id='i0000000000000002'/><presence id=\"p0000000000000003-7\"/>\
         <iq type='get' id='&lt;>'><ping xmlns='urn:xmpp:ping'/></iq>\
         <message><body>\u{feff}>\u{20ac}<![CDATA[>]>]]></body></message>\
         <stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>\
         </stream:stream>";
    let xmpp = vec![
        part(login.as_bytes(), &[MESSAGE, Act::Ping, Act::Presence]),
        part(online.as_bytes(), &[]),
    ];
    vec![("line", line), ("mqtt", mqtt), ("xmpp", xmpp)]
}

#[derive(Debug, Eq, PartialEq)]
struct Told {
    events: Vec<Event>,
    is_fault: bool,
    out: String,
}

/// What a session makes of it, cut where `is_cut` says.
fn told(name: &str, parts: &[Part], is_cut: &mut dyn FnMut() -> bool) -> Told {
    let settings = Settings { quality: Quality::AtLeastOnce, ..Settings::default() };
    let mut session = (kind(name).unwrap().protocol)(&settings).unwrap().session(UserId(7));
    let (mut out, mut events, mut is_fault, mut token) = (Vec::new(), Vec::new(), false, 0);
    session.connected(&mut out);
    'all: for (bytes, acts) in parts {
        let mut start = 0;
        for end in 1..=bytes.len() {
            if end < bytes.len() && !is_cut() {
                continue;
            }
            let piece = &bytes[start..end];
            start = end;
            is_fault = session.received(piece, &mut out, &mut events).is_err();
            // Of what has arrived, and of a tree of it, no more than so much is kept.
            assert!(session.held().0 as usize <= 4096 + 128 * bytes.len(), "{name}");
            if is_fault {
                break 'all;
            }
        }
        for act in *acts {
            token += 1;
            // A server that is out of its mind may not have let the user in.
            let _ = session.act(*act, Token(token), &mut out);
        }
    }
    Told { events, is_fault, out: out.escape_ascii().to_string() }
}

#[test]
fn transcripts_are_understood() {
    for (name, parts) in transcripts() {
        let told = told(name, &parts, &mut || false);
        assert!(!told.is_fault, "{name}: {told:?}");
        assert_eq!(told.events[0], Event::Online, "{name}");
        let answers = told.events.iter().filter(|event| matches!(event, Event::Answered(..)));
        assert!(answers.count() >= 2, "{name}: {told:?}");
        assert!(told.events.contains(&Event::Delivered(Some(Token(9)))), "{name}: {told:?}");
    }
}

#[test]
fn a_cut_at_any_byte_makes_no_difference() {
    for (name, parts) in transcripts() {
        let whole = told(name, &parts, &mut || false);
        assert_eq!(told(name, &parts, &mut || true), whole, "{name}, byte by byte");
        let length = parts.iter().map(|(bytes, _)| bytes.len()).sum::<usize>();
        for cut in 0..length {
            let mut place = 0;
            let mut is_cut = || {
                place += 1;
                place == cut + 1
            };
            assert_eq!(told(name, &parts, &mut is_cut), whole, "{name}, cut at {cut}");
        }
    }
}

/// A server that is out of its mind: bytes changed, left out, repeated and put in.
#[test]
fn whatever_a_server_sends_pieces_make_no_difference() {
    // Chosen: a second or two.
    const TRIES: usize = 100_000;
    let mut random = fastrand::Rng::with_seed(7);
    let transcripts = transcripts();
    let (mut faults, mut events) = (0, 0);
    for _ in 0..TRIES {
        let (name, parts) = &transcripts[random.usize(..transcripts.len())];
        let mut parts = parts.clone();
        for _ in 0..random.usize(1..4) {
            let part = random.usize(..parts.len());
            spoil(&mut parts[part].0, &mut random);
        }
        let whole = told(name, &parts, &mut || false);
        let often = [1, 4, 32][random.usize(..3)];
        let pieces = told(name, &parts, &mut || random.usize(..often) == 0);
        let sent = |(bytes, _): &Part| bytes.escape_ascii().to_string();
        let sent: Vec<_> = parts.iter().map(sent).collect();
        assert_eq!(pieces, whole, "{name}: {}", sent.join("\n"));
        faults += usize::from(whole.is_fault);
        events += whole.events.len();
    }
    // The test reaches both.
    assert!(faults > TRIES / 10 && events > TRIES, "{faults} faults, {events} events");
}

fn spoil(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const WORDS: &[&[u8]] = &[
        b"<",
        b">",
        b"</",
        b"/>",
        b"&",
        b"&#0;",
        b"&#x41;",
        b"<![CDATA[",
        b"]]>",
        b"<!--",
        b"-->",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
        b"&b;",
        b"<?xml",
        b"?>",
        b"'",
        b"\"",
        b"\n",
        b"\r\n",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\0",
        b"\x80\x80\x80\x80",
        b"<a:b/>",
        b"xmlns='a'",
        b"<stream:error/>",
        b"</stream:stream>",
    ];
    let place = random.usize(..=bytes.len());
    let end = bytes.len().min(place + random.usize(..20));
    match random.u8(..4) {
        0 if place < bytes.len() => bytes[place] = random.u8(..),
        1 => drop(bytes.drain(place..end)),
        2 => {
            let again = bytes[place..end].to_vec();
            bytes.splice(place..place, again);
        }
        _ => {
            let word = WORDS[random.usize(..WORDS.len())];
            bytes.splice(place..place, word.iter().copied());
        }
    }
}
