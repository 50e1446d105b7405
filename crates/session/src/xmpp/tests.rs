//! A user against a server whose words are written here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::scram::Hash;
use super::*;
use crate::settings::Tls;
use crate::testing::{Told, online, protocol};

const HEADER: &str = "<?xml version='1.0'?><stream:stream id='1' version='1.0' xml:lang='en' \
     xmlns:stream='http://etherx.jabber.org/streams' from='localhost' xmlns='jabber:client'>";

fn features(mechanisms: &[&str], more: &str) -> String {
    let each = |name: &&str| format!("<mechanism>{name}</mechanism>");
    let all: String = mechanisms.iter().map(each).collect();
    format!(
        "{HEADER}<stream:features>{more}<mechanisms xmlns='{SASL}'>{all}</mechanisms></stream:features>"
    )
}

fn resource(more: &str) -> String {
    format!("{HEADER}<stream:features><bind xmlns='{BIND}'/>{more}</stream:features>")
}

const SUCCESS: &str = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>";
const BOUND: &str = "<iq id='bind' type='result'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
     <jid>user7@localhost/linerate</jid></bind></iq>";
const NO_CONTACTS: &str = "<iq id='roster' type='result'><query xmlns='jabber:iq:roster'/></iq>";
const PRESENT: &str = "<presence from='user7@localhost/linerate' to='user7@localhost/linerate' \
     id='p0000000000000000-7'/>";

fn user() -> Told {
    Told::of(protocol("xmpp", &Settings::default()).session(UserId(7)))
}

fn written(told: &mut Told) -> String {
    String::from_utf8(told.taken()).unwrap()
}

/// What the server says to a user who logs in with PLAIN.
fn welcome() -> Vec<String> {
    let (offered, bindable) = (features(&["PLAIN"], ""), resource(""));
    [&offered[..], SUCCESS, &bindable, BOUND, NO_CONTACTS, PRESENT].map(str::to_owned).to_vec()
}

fn logged_in() -> Told {
    let welcome = welcome();
    let answers: Vec<_> = welcome.iter().map(|answer| answer.as_bytes()).collect();
    online("xmpp", &Settings::default(), &answers)
}

#[test]
fn a_user_logs_in_with_plain_and_says_each_thing_once() {
    let mut told = user();
    told.session.connected(&mut told.out);
    assert!(written(&mut told).starts_with("<?xml version='1.0'?><stream:stream to='localhost'"));
    let mut said = Vec::new();
    for answer in welcome() {
        assert_eq!(told.events, []);
        told.feed(answer.as_bytes()).unwrap();
        said.push(written(&mut told));
    }
    assert_eq!(told.events, [Event::Online]);
    // base64 of "\0user7\0secret7": RFC 4616.
    assert_eq!(
        said[0],
        format!("<auth xmlns='{SASL}' mechanism='PLAIN'>AHVzZXI3AHNlY3JldDc=</auth>")
    );
    assert!(said[1].starts_with("<?xml version='1.0'?><stream:stream"));
    assert!(said[2].contains("<resource>linerate</resource>"));
    assert!(said[3].contains("<query xmlns='jabber:iq:roster'/>"));
    assert!(said[3].ends_with("<presence id='p0000000000000000-7'/>"));
    assert_eq!((&*said[4], &*said[5]), ("", ""));
    assert_eq!(told.session.held(), Bytes(0));
}

#[test]
fn a_user_is_online_with_roster_and_presence_in_either_order() {
    let before = welcome();
    let [.., roster, presence] = &before[..] else { panic!("{before:?}") };
    for order in [[roster, presence], [presence, roster]] {
        let mut told = user();
        told.session.connected(&mut told.out);
        for answer in &before[..before.len() - 2] {
            told.feed(answer.as_bytes()).unwrap();
        }
        for answer in order {
            assert_eq!(told.events, []);
            told.feed(answer.as_bytes()).unwrap();
        }
        assert_eq!(told.events, [Event::Online]);
    }
}

#[test]
fn scram_is_preferred_and_both_sides_prove_the_password() {
    for (offered, chosen, hash) in [
        (&["PLAIN", "SCRAM-SHA-1"][..], "SCRAM-SHA-1", Hash::Sha1),
        (&["SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN"], "SCRAM-SHA-256", Hash::Sha256),
    ] {
        for is_challenge in [false, true] {
            let mut told = user();
            told.feed(features(offered, "").as_bytes()).unwrap();
            let auth = written(&mut told);
            assert!(auth.contains(&format!("mechanism='{chosen}'")), "{auth}");
            let first = STANDARD.decode(between(&auth, ">", "</auth>")).unwrap();
            let nonce = String::from_utf8(first).unwrap().split("r=").nth(1).unwrap().to_owned();

            // What another user of the same password would answer says what the server is to prove.
            let server = format!("r={nonce}server,s=QSXCR+Q6sek8bf92,i=4096");
            let (mut twin, _) = Scram::begin(hash, "user7", nonce);
            let proof = twin.answer(&server, "secret7").unwrap();
            let challenge = STANDARD.encode(server);
            told.feed(format!("<challenge xmlns='{SASL}'>{challenge}</challenge>").as_bytes())
                .unwrap();
            assert_eq!(between(&written(&mut told), ">", "</response>"), STANDARD.encode(proof));
            let signature = STANDARD.encode(format!("v={}", STANDARD.encode(twin.signature())));
            if is_challenge {
                told.feed(format!("<challenge xmlns='{SASL}'>{signature}</challenge>").as_bytes())
                    .unwrap();
                assert_eq!(between(&written(&mut told), ">", "</response>"), "");
                told.feed(SUCCESS.as_bytes()).unwrap();
            } else {
                let mut impostor = user();
                impostor.feed(features(offered, "").as_bytes()).unwrap();
                let success = format!("<success xmlns='{SASL}'>{signature}</success>");
                let fault = impostor.feed(success.as_bytes()).unwrap_err();
                assert!(fault.to_string().contains("not made with this password"), "{fault}");
                told.feed(success.as_bytes()).unwrap();
            }
            assert!(written(&mut told).contains("<stream:stream"));
        }
    }
}

#[test]
fn a_server_that_proves_nothing_is_a_fault() {
    let mut told = user();
    told.feed(features(&["SCRAM-SHA-1"], "").as_bytes()).unwrap();
    let fault = told.feed(SUCCESS.as_bytes()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the server sends a last message without signature where SCRAM of this user's password was expected"
    );
}

#[test]
fn an_old_server_is_asked_for_a_session_and_a_newer_one_is_not() {
    let mut told = user();
    let session = "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>";
    for answer in
        [features(&["PLAIN"], ""), SUCCESS.to_owned(), resource(session), BOUND.to_owned()]
    {
        told.taken();
        told.feed(answer.as_bytes()).unwrap();
    }
    assert!(written(&mut told).contains("<iq type='set' id='session'>"));
    told.feed(b"<iq type='result' id='session'/>").unwrap();
    assert!(written(&mut told).contains("jabber:iq:roster"));

    let mut told = user();
    let optional = "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session>";
    for answer in
        [features(&["PLAIN"], ""), SUCCESS.to_owned(), resource(optional), BOUND.to_owned()]
    {
        told.taken();
        told.feed(answer.as_bytes()).unwrap();
    }
    assert!(written(&mut told).contains("jabber:iq:roster"));
}

#[test]
fn a_message_is_delivered_with_its_token_and_one_of_somebody_else_without() {
    let mut told = logged_in();
    let message = Act::Message { to: UserId(8), size: Bytes(20) };
    told.session.act(message, Token(0xab), &mut told.out).unwrap();
    let sent = written(&mut told);
    assert_eq!(
        sent,
        "<message to='user8@localhost' type='chat' id='m00000000000000ab'>\
         <body>t=00000000000000ab..</body></message>"
    );
    told.feed(sent.as_bytes()).unwrap();
    told.feed(b"<message><body>hello</body></message><message><composing/></message>").unwrap();
    told.feed(
        b"<message type='error' id='m00000000000000ab'><error type='cancel'><service-unavailable \
          xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    )
    .unwrap();
    let said = "service-unavailable".to_owned();
    assert_eq!(
        told.events,
        [
            Event::Delivered(Some(Token(0xab))),
            Event::Delivered(None),
            Event::Declined(Doing::Message, Token(0xab), Reason { cause: Cause::Other, said }),
        ]
    );
}

#[test]
fn pings_and_presence_are_answered_by_their_token() {
    let mut told = logged_in();
    told.session.act(Act::Ping, Token(1), &mut told.out).unwrap();
    told.session.act(Act::Presence, Token(2), &mut told.out).unwrap();
    assert_eq!(
        written(&mut told),
        "<iq type='get' to='localhost' id='i0000000000000001'><ping xmlns='urn:xmpp:ping'/></iq>\
         <presence id='p0000000000000002-7'/>"
    );
    // Presence of user 8 is none of ours; a server without pings is there too.
    told.feed(
        b"<presence id='p0000000000000002-8'/><presence id='p0000000000000002-7'/>\
          <iq type='error' id='i0000000000000001'/><iq type='result' id='i1'/>",
    )
    .unwrap();
    assert_eq!(
        told.events,
        [Event::Answered(Doing::Presence, Token(2)), Event::Answered(Doing::Ping, Token(1))]
    );
}

#[test]
fn what_is_asked_of_the_user_is_answered_and_escaped() {
    let mut told = logged_in();
    told.feed(
        b"<iq type='get' id='1&apos;' from='a&amp;b'><ping xmlns='urn:xmpp:ping'/></iq>\
          <iq type='set' id='2'><query xmlns='jabber:iq:roster'/></iq>\
          <iq type='get' id='3'><query xmlns='jabber:iq:version'/></iq>",
    )
    .unwrap();
    assert_eq!(
        written(&mut told),
        "<iq type='result' id='1&apos;' to='a&amp;b'/><iq type='result' id='2'/>\
         <iq type='error' id='3'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    );
    assert_eq!(told.events, []);
}

#[test]
fn refusals_have_their_cause() {
    let failure = |condition: &str| format!("<failure xmlns='{SASL}'><{condition}/></failure>");
    let refused = |answers: &[String]| {
        let mut told = user();
        for answer in answers {
            told.feed(answer.as_bytes()).unwrap();
        }
        match &told.events[..] {
            [Event::Refused(reason)] => (reason.cause, reason.said.clone()),
            other => panic!("{other:?}"),
        }
    };
    let plain = features(&["PLAIN"], "");
    assert_eq!(
        refused(&[plain.clone(), failure("not-authorized")]),
        (Cause::Credentials, "not-authorized".to_owned())
    );
    assert_eq!(refused(&[plain.clone(), failure("account-disabled")]).0, Cause::NotAllowed);
    assert_eq!(
        refused(&[features(&["GSSAPI", "X-OAUTH2"], "")]),
        (
            Cause::NothingInCommon,
            "the server offers `GSSAPI X-OAUTH2`, the user has `SCRAM-SHA-256 SCRAM-SHA-1 PLAIN`"
                .to_owned()
        )
    );
    let required = format!("<starttls xmlns='{TLS}'><required/></starttls>");
    assert_eq!(refused(&[features(&["PLAIN"], &required)]).1, "the server requires TLS");
    let no_such_host = format!(
        "{HEADER}<stream:error><host-unknown xmlns='{STREAM_ERRORS}'/>\
         <text xmlns='{STREAM_ERRORS}'>not here</text></stream:error></stream:stream>"
    );
    assert_eq!(refused(&[no_such_host]), (Cause::Other, "host-unknown: not here".to_owned()));
    let conflict = format!(
        "<iq type='error' id='bind'><error><conflict xmlns='{STANZA_ERRORS}'/></error></iq>"
    );
    assert_eq!(
        refused(&[plain.clone(), SUCCESS.to_owned(), resource(""), conflict]).0,
        Cause::Replaced
    );
    assert_eq!(refused(&[plain, "</stream:stream>".to_owned()]).1, "the server closed the stream");
}

#[test]
fn a_session_that_is_online_can_be_ended_and_can_leave() {
    let mut told = logged_in();
    told.feed(
        format!(
            "<stream:error><conflict xmlns='{STREAM_ERRORS}'/></stream:error></stream:stream>x"
        )
        .as_bytes(),
    )
    .unwrap();
    let said = "conflict".to_owned();
    assert_eq!(told.events, [Event::Ended(Reason { cause: Cause::Replaced, said })]);
    assert_eq!(told.session.act(Act::Ping, Token(1), &mut told.out), Err(NotDone::NotOnline));

    let mut told = logged_in();
    told.session.close(&mut told.out);
    assert_eq!(written(&mut told), "<presence type='unavailable'/></stream:stream>");
    told.feed(b"<presence type='unavailable'/></stream:stream>").unwrap();
    assert_eq!(told.events, []);
}

#[test]
fn tls_begins_when_the_server_says_so_and_nothing_came_before_it() {
    let settings = Settings { tls: Tls::Required, ..Settings::default() };
    let starttls = format!("<starttls xmlns='{TLS}'/>");
    let asked = || {
        let mut told = Told::of(protocol("xmpp", &settings).session(UserId(7)));
        told.feed(features(&["PLAIN"], &starttls).as_bytes()).unwrap();
        assert_eq!(written(&mut told), starttls);
        told
    };
    let proceed = format!("<proceed xmlns='{TLS}'/>");
    let mut told = asked();
    told.feed(proceed.as_bytes()).unwrap();
    assert_eq!(told.events, [Event::StartTls]);
    told.session.connected(&mut told.out);
    assert!(written(&mut told).contains("<stream:stream"));
    told.feed(features(&["PLAIN"], "").as_bytes()).unwrap();
    assert!(written(&mut told).contains("mechanism='PLAIN'"));

    let fault = asked().feed(format!("{proceed}{HEADER}").as_bytes()).unwrap_err();
    assert!(fault.to_string().contains("bytes between `proceed` and TLS"), "{fault}");

    let mut told = Told::of(protocol("xmpp", &settings).session(UserId(7)));
    told.feed(features(&["PLAIN"], "").as_bytes()).unwrap();
    assert!(matches!(&told.events[..], [Event::Refused(reason)] if reason.said.contains("no TLS")));
}

#[test]
fn what_is_not_xmpp_or_not_now_is_a_fault() {
    assert_eq!(
        user().feed(b"HTTP/1.1 400 Bad Request\r\n").unwrap_err().to_string(),
        "the server does not speak XMPP: text outside of a stanza, found `HTTP/1.1 400 Bad Request\\r\\n`"
    );
    let mut told = user();
    told.feed(HEADER.as_bytes()).unwrap();
    assert_eq!(
        told.feed(b"<iq type='get'/>").unwrap_err().to_string(),
        "the server sends `iq` where `features` was expected"
    );
}

#[test]
fn settings_that_would_break_xml_or_a_name_are_refused() {
    let refused = |settings: Settings| (KIND.protocol)(&settings).err().unwrap().to_string();
    let users = |text: &str| Settings { users: text.parse().unwrap(), ..Settings::default() };
    assert!(refused(users("a<{n}")).contains("has `<` in it, which a name of XMPP may not"));
    assert!(refused(users("user")).contains("is the same for every user"));
    let domain = |text: &str| Settings { domain: text.into(), ..Settings::default() };
    assert!(refused(domain("a'b")).contains("which a domain may not"));
    assert!(refused(domain("")).contains("a domain has 1 to 1023"));
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let start = text.find(before).unwrap() + before.len();
    &text[start..start + text[start..].find(after).unwrap()]
}
