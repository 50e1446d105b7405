//! An XML stream, stanza by stanza.
//!
//! What arrived is read as far as its tags are whole; what is left is read again when more has come. So
//! between two stanzas nothing is kept. Source: RFC 6120, section 11 (no comments, processing instructions,
//! document types or entities but the five).

use std::sync::Arc;

use quick_xml::events::{BytesStart, Event};
use quick_xml::name::QName;
use quick_xml::{Error, Reader, escape};

use crate::pieces::Pieces;
use crate::session::Fault;
use crate::text;

/// Of the stream itself: its prefix is `stream`, as RFC 6120, section 4.8.5 lets us insist on.
pub(crate) const STREAMS: &str = "http://etherx.jabber.org/streams";

/// The longest stanza that is read. Chosen: a message, and as much around it.
const LONGEST: usize = 2 * text::LONGEST;
/// Chosen: stanzas have a depth of about 5.
const DEEPEST: usize = 32;

/// An element, with all that is in it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Shared by all that inherit it: many small elements in a long namespace take no more than their own.
    pub(crate) namespace: Arc<str>,
    attributes: Vec<(String, String)>,
    /// Declared here, by prefix; empty for what has none.
    namespaces: Vec<(String, Arc<str>)>,
    pub(crate) children: Vec<Element>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn is(&self, name: &str, namespace: &str) -> bool {
        self.name == name && *self.namespace == *namespace
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn child(&self, name: &str, namespace: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.is(name, namespace))
    }
}

/// What came.
#[derive(Debug)]
pub(crate) enum Got<'a> {
    /// The stream's own start tag.
    Opened,
    /// A stanza, or another element at its level.
    Stanza(&'a Element),
    /// The stream's end tag.
    Closed,
}

/// What is to be read next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Then {
    /// More of the same stream.
    More,
    /// A new stream.
    NewStream,
    /// TLS: nothing may have come after this.
    Tls,
    /// Nothing.
    Nothing,
}

/// A stream that is being read.
#[derive(Default)]
pub(crate) struct Xml {
    pieces: Pieces,
    tree: Tree,
}

#[derive(Default)]
struct Tree {
    is_open: bool,
    /// Elements whose end has not come, outermost first; empty between two stanzas.
    open: Vec<Element>,
    /// Bytes of the stanza so far.
    size: usize,
}

impl Xml {
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        got: &mut dyn FnMut(Got<'_>) -> Result<Then, Fault>,
    ) -> Result<(), Fault> {
        let Self { pieces, tree } = self;
        pieces.feed(bytes, "a stanza", LONGEST, |bytes| tree.take(bytes, got))
    }

    /// Memory that is held.
    pub(crate) fn held(&self) -> usize {
        fn within(element: &Element) -> usize {
            let strings = |(name, value): &(String, String)| name.capacity() + value.capacity();
            let declared = |(prefix, name): &(String, Arc<str>)| prefix.capacity() + name.len();
            element.name.capacity()
                + element.text.capacity()
                + element.attributes.iter().map(strings).sum::<usize>()
                + element.attributes.capacity() * size_of::<(String, String)>()
                + element.namespaces.iter().map(declared).sum::<usize>()
                + element.namespaces.capacity() * size_of::<(String, Arc<str>)>()
                + element.children.iter().map(within).sum::<usize>()
                + element.children.capacity() * size_of::<Element>()
        }
        let open = self.tree.open.iter().map(within).sum::<usize>();
        self.pieces.held() + open + self.tree.open.capacity() * size_of::<Element>()
    }
}

impl Tree {
    /// Reads what is whole; answers how many bytes that is.
    fn take(
        &mut self,
        bytes: &[u8],
        got: &mut dyn FnMut(Got<'_>) -> Result<Then, Fault>,
    ) -> Result<usize, Fault> {
        // Behind the last `>` there is half a tag, or text that may go on: but for the white space that keeps
        // a connection alive.
        let end = bytes.iter().rposition(|byte| *byte == b'>').map_or(0, |place| place + 1);
        let mut used = self.skip_space(bytes)?;
        if used < end {
            let (text, bad) = match str::from_utf8(&bytes[used..end]) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (valid, bad) = bytes[used..].split_at(error.valid_up_to());
                    (str::from_utf8(valid).unwrap_or_default(), Some(bad))
                }
            };
            used += self.take_text(text, &bytes[used..], got)?;
            if let Some(bad) = bad.filter(|_| used < bytes.len()) {
                return Err(malformed("bytes that are not UTF-8", bad));
            }
            used += self.skip_space(&bytes[used..])?;
        }
        Ok(used)
    }

    /// How much white space stands before the next stanza; none in the middle of one.
    fn skip_space(&self, bytes: &[u8]) -> Result<usize, Fault> {
        if !self.open.is_empty() {
            return Ok(0);
        }
        let space = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match bytes.get(space) {
            None | Some(b'<') => Ok(space),
            Some(_) => Err(malformed("text outside of a stanza", &bytes[space..])),
        }
    }

    fn take_text(
        &mut self,
        text: &str,
        bytes: &[u8],
        got: &mut dyn FnMut(Got<'_>) -> Result<Then, Fault>,
    ) -> Result<usize, Fault> {
        let mut start = 0;
        // A reader leaves out a byte order mark at its beginning, which here may be anywhere in a text.
        if let Some(element) = self.open.last_mut() {
            while text[start..].starts_with('\u{feff}') {
                element.text.push('\u{feff}');
                start += '\u{feff}'.len_utf8();
            }
        }
        self.size += start;
        let mut reader = Reader::from_str(&text[start..]);
        // The reader is another one than the start tag's: ends are compared here.
        reader.config_mut().check_end_names = false;
        reader.config_mut().allow_unmatched_ends = true;
        let mut used = start;
        loop {
            let event = match reader.read_event() {
                Ok(Event::Eof) => return Ok(used),
                Ok(event) => event,
                Err(error) if is_cut(&error) => return Ok(used),
                Err(_) => return Err(malformed("XML that is not well-formed", &bytes[used..])),
            };
            let after = start + reader.buffer_position() as usize;
            let token = &bytes[used..after];
            self.size += token.len();
            if self.size > LONGEST {
                return Err(Fault::TooLong { what: "a stanza", most: LONGEST });
            }
            used = after;
            let then = self.on_event(event, token, got)?;
            if self.open.is_empty() {
                self.size = 0;
            }
            match then {
                Then::More => {}
                Then::NewStream => *self = Tree::default(),
                Then::Nothing => return Ok(bytes.len()),
                // What stands behind it was not sent under TLS, whoever sent it.
                Then::Tls if used < bytes.len() => {
                    return Err(malformed("bytes between `proceed` and TLS", &bytes[used..]));
                }
                Then::Tls => {
                    *self = Tree::default();
                    return Ok(used);
                }
            }
        }
    }

    fn on_event(
        &mut self,
        event: Event<'_>,
        token: &[u8],
        got: &mut dyn FnMut(Got<'_>) -> Result<Then, Fault>,
    ) -> Result<Then, Fault> {
        let bad = |wrong| Err(malformed(wrong, token));
        match event {
            Event::Start(tag) => {
                let element = self.element(&tag, token)?;
                if !self.is_open {
                    if !element.is("stream", STREAMS) {
                        return bad("no stream");
                    }
                    self.is_open = true;
                    return got(Got::Opened);
                }
                if self.open.len() == DEEPEST {
                    return bad("elements more than 32 deep");
                }
                self.open.push(element);
                Ok(Then::More)
            }
            Event::Empty(tag) => {
                let element = self.element(&tag, token)?;
                if !self.is_open {
                    return bad("no stream");
                }
                self.close(element, got)
            }
            Event::End(tag) => match self.open.pop() {
                Some(element) if element.is_named(tag.name()) => self.close(element, got),
                None if self.is_open && tag.name() == QName("stream:stream") => {
                    self.is_open = false;
                    got(Got::Closed)
                }
                _ => bad("an end tag of another element"),
            },
            Event::Text(text) => self.text(&text, token),
            Event::CData(text) => self.text(&text, token),
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(character)) => self.text(character.encode_utf8(&mut [0; 4]), token),
                Ok(None) => match escape::resolve_predefined_entity(&reference) {
                    Some(text) => self.text(text, token),
                    None => bad("an entity that is not one of XML's five"),
                },
                Err(_) => bad("a reference that is no character"),
            },
            Event::Decl(_) if !self.is_open => Ok(Then::More),
            Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Comment(_) => {
                bad("markup that XMPP forbids")
            }
            Event::Eof => Ok(Then::More),
        }
    }

    /// The element of a start tag, without what is in it.
    fn element(&self, tag: &BytesStart<'_>, token: &[u8]) -> Result<Element, Fault> {
        let bad = |wrong| malformed(wrong, token);
        let (local, prefix) = tag.name().decompose();
        let prefix = prefix.map_or("", |prefix| prefix.into_inner());
        let mut element = Element { name: local.into_inner().to_owned(), ..Element::default() };
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|_| bad("an attribute that is not well-formed"))?;
            let name = attribute.key.0;
            let value = escape::unescape(&attribute.value)
                .map_err(|_| bad("an entity that is not one of XML's five"))?;
            let declared = match name {
                "xmlns" => Some(""),
                _ => name.strip_prefix("xmlns:"),
            };
            match declared {
                Some(prefix) => element.namespaces.push((prefix.to_owned(), value.as_ref().into())),
                None => element.attributes.push((name.to_owned(), value.into_owned())),
            }
        }
        let declared = |element: &Element| {
            let of_prefix = element.namespaces.iter().find(|(of, _)| of == prefix);
            of_prefix.map(|(_, namespace)| Arc::clone(namespace))
        };
        element.namespace = declared(&element)
            .or_else(|| self.open.iter().rev().find_map(declared))
            .or_else(|| match prefix {
                "" => Some("jabber:client".into()),
                "stream" => Some(STREAMS.into()),
                _ => None,
            })
            .ok_or_else(|| bad("a prefix that was not declared"))?;
        Ok(element)
    }

    fn close(
        &mut self,
        element: Element,
        got: &mut dyn FnMut(Got<'_>) -> Result<Then, Fault>,
    ) -> Result<Then, Fault> {
        match self.open.last_mut() {
            Some(parent) => {
                parent.children.push(element);
                Ok(Then::More)
            }
            None => {
                self.open = Vec::new();
                got(Got::Stanza(&element))
            }
        }
    }

    fn text(&mut self, text: &str, token: &[u8]) -> Result<Then, Fault> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if token.iter().all(u8::is_ascii_whitespace) => {}
            None => return Err(malformed("text outside of a stanza", token)),
        }
        Ok(Then::More)
    }
}

impl Element {
    /// Whether an end tag is this element's. Prefixes are not kept: two that mean the same are as good.
    fn is_named(&self, name: QName<'_>) -> bool {
        self.name == name.local_name().into_inner()
    }
}

/// Whether more bytes could make it whole.
fn is_cut(error: &Error) -> bool {
    use quick_xml::errors::SyntaxError::*;
    matches!(
        error,
        Error::Syntax(
            UnclosedTag
                | UnclosedSingleQuotedAttributeValue
                | UnclosedDoubleQuotedAttributeValue
                | UnclosedCData
                | UnclosedXmlDecl
        )
    )
}

fn malformed(wrong: &'static str, found: &[u8]) -> Fault {
    Fault::malformed("XMPP", wrong, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

    /// All stanzas, and how it ended.
    fn read(pieces: &[&[u8]]) -> (Vec<Element>, Result<bool, Fault>) {
        let (mut xml, mut stanzas, mut closed) = (Xml::default(), Vec::new(), false);
        for piece in pieces {
            let fed = xml.feed(piece, &mut |got| {
                match got {
                    Got::Opened => {}
                    Got::Stanza(stanza) => stanzas.push(stanza.clone()),
                    Got::Closed => closed = true,
                }
                Ok(Then::More)
            });
            if let Err(fault) = fed {
                return (stanzas, Err(fault));
            }
        }
        (stanzas, Ok(closed))
    }

    fn whole(text: &str) -> (Vec<Element>, Result<bool, Fault>) {
        read(&[HEADER.as_bytes(), text.as_bytes()])
    }

    #[test]
    fn a_stanza_has_names_namespaces_attributes_and_text() {
        let (stanzas, end) = whole(
            "<message from='a@b' id=\"&lt;&#65;>\"><body>1 &amp; 2<![CDATA[ <3> ]]>&#x34;</body>\
             <e:x xmlns:e='urn:e'><y/><z xmlns='urn:z'/></e:x></message> \n</stream:stream>",
        );
        assert_eq!(end, Ok(true));
        let [message] = &stanzas[..] else { panic!("{stanzas:?}") };
        assert!(message.is("message", "jabber:client"));
        assert_eq!(message.attribute("id"), Some("<A>"));
        assert_eq!(message.child("body", "jabber:client").unwrap().text, "1 & 2 <3> 4");
        let x = message.child("x", "urn:e").unwrap();
        assert!(x.child("y", "jabber:client").is_some() && x.child("z", "urn:z").is_some());
    }

    #[test]
    fn where_it_is_cut_makes_no_difference() {
        let text = format!(
            "{HEADER}<a b='>'/> \n <c>\u{feff}d &gt; \u{20ac}<![CDATA[>]>]]>\u{feff}</c>\n\n<e><f>></f></e></stream:stream>"
        );
        let expected = read(&[text.as_bytes()]);
        assert_eq!((expected.0.len(), &expected.1), (3, &Ok(true)));
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(read(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
        }
        let each: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(read(&each), expected);
    }

    #[test]
    fn between_stanzas_nothing_is_held() {
        let mut xml = Xml::default();
        let mut got = |_: Got<'_>| Ok(Then::More);
        xml.feed(HEADER.as_bytes(), &mut got).unwrap();
        xml.feed(b"<a><b>text</b></a> <c/>\n ", &mut got).unwrap();
        assert_eq!(xml.held(), 0);
        xml.feed(b"<a><b>te", &mut got).unwrap();
        assert!(xml.held() > 0);
        xml.feed(b"xt</b></a>", &mut got).unwrap();
        assert_eq!(xml.held(), 0);
    }

    #[test]
    fn what_xmpp_forbids_is_a_fault() {
        for (text, wrong) in [
            ("<!DOCTYPE a [<!ENTITY b 'c'>]>", "markup that XMPP forbids"),
            ("<!DOCTYPE a [<!ENTITY b 'c'>", "XML that is not well-formed"),
            ("<!-- a -->", "markup that XMPP forbids"),
            ("<?a b?>", "markup that XMPP forbids"),
            ("<?xml version='1.0'?>", "markup that XMPP forbids"),
            ("<a>&b;</a>", "an entity that is not one of XML's five"),
            ("<a b='&c;'/>", "an entity that is not one of XML's five"),
            ("<a>&#0;</a>", "a reference that is no character"),
            ("<a></b>", "an end tag of another element"),
            ("</a>", "an end tag of another element"),
            ("<a b='1' b='2'/>", "an attribute that is not well-formed"),
            ("<b:a/>", "a prefix that was not declared"),
            ("text<a/>", "text outside of a stanza"),
            ("HTTP/1.1", "text outside of a stanza"),
        ] {
            match whole(text) {
                (_, Err(Fault::Malformed { wrong: found, .. })) => {
                    assert_eq!(found, wrong, "{text}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let (stanzas, end) = read(&[HEADER.as_bytes(), b"<a/><b>\xff</b>"]);
        assert!(stanzas.len() == 1 && end.unwrap_err().to_string().contains("not UTF-8"));
        for first in ["<a>", "<stream:stream/>", "<stream xmlns='urn:a'>", "</stream:stream>"] {
            assert!(read(&[first.as_bytes()]).1.is_err(), "{first}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep = "<a>".repeat(DEEPEST + 1);
        assert!(whole(&deep).1.unwrap_err().to_string().contains("more than 32 deep"));
        let body = "x".repeat(LONGEST + 1);
        for long in [
            format!("<a>{body}</a>"),
            format!("<a>{body}"),
            format!("<a b='{body}"),
            format!("<a>{}", "<b/>".repeat(LONGEST / 4)),
        ] {
            let fault = whole(&long).1.unwrap_err();
            assert_eq!(fault.to_string(), "the server sends a stanza longer than 131072 bytes");
        }
        // Many in a long namespace share it.
        let mut xml = Xml::default();
        let many = format!("<a xmlns='{}'>{}", "x".repeat(60_000), "<b/>".repeat(15_000));
        let got = &mut |_: Got<'_>| Ok(Then::More);
        xml.feed(HEADER.as_bytes(), got).unwrap();
        xml.feed(many.as_bytes(), got).unwrap();
        assert!(xml.held() < 40 * many.len(), "{}", xml.held());
        // Many small ones are no large one, and white space is none.
        assert_eq!(whole(&"<a/>".repeat(LONGEST)).0.len(), LONGEST);
        assert!(whole(&" ".repeat(2 * LONGEST)).1.is_ok());
    }
}
