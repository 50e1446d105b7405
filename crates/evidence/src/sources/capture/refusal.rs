//! How services refuse in an answer's first bytes, each in its own protocol; and how some let a client in.
//!
//! The kernel compares them, and reports the kind by how much of the headers it hands over: no byte of payload leaves
//! it. The signs are words that no good answer begins with; those of [`Refusal::Error`] may be right answers to a wrong question. Further in two are looked for: an error of PostgreSQL's behind
//! the messages of [`PASSED`], and what is [`SOUGHT`] in a stanza of XMPP. What is elsewhere, or encrypted, is not seen.

/// A family of protocols, and its form of refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// Status 400, 408, 413, 414, 429, 431 or 5xx. nginx, Apache and HAProxy say 400 where headers are too large. Source:
    /// RFC 9110, 15.5.1, 15.5.14, 15.5.15 and 15.6; RFC 6585, 4 and 5; nginx, "large_client_header_buffers".
    Http,
    /// A reply of SMTP or FTP: 421, 425, 450, 451, 452, 454, 530, 554; vsftpd's `500 OOPS`, after which it ends the session;
    /// SERVFAIL or REFUSED of DNS. Source: RFC 5321, 4.2.3; RFC 959, 4.2; RFC 4954, 6; vsftpd, `die`; RFC 1035, 4.1.1.
    Reply,
    /// A word: `-ERR max number of clients`, `-OOM`, `SERVER_ERROR`, `NO [LIMIT]`, `@ERROR: max connections`. Source: RESP,
    /// "simple errors", and the errors of redis that are about itself and not the command (`createSharedObjects`);
    /// memcached's and beanstalkd's protocol.txt; RFC 9051, 7.1; RFC 2449, 8; NATS, "-ERR"; rsync, "csprotocol.txt". And what
    /// protocols of one's own say: `busy`, `overloaded`, `denied`, `rejected`. Chosen: by what they mean.
    Word,
    /// What a database can't do now, whatever it is asked: PostgreSQL's FATAL, and its errors of the classes 40, 53 and
    /// 57, 25006 and 55P03; MySQL's 1021, 1040, 1203, 1205, 1213, 1226, 1290 and 1836, and any at a login.
    /// Source: PostgreSQL, "Message Formats", ErrorResponse, and "PostgreSQL Error Codes"; MySQL, `ERR_Packet`, and
    /// "Server Error Message Reference".
    Database,
    /// A broker that closes a connection or a channel, refuses a login, or gives a message back. Source: AMQP 0-9-1, 1.4.2.7,
    /// 1.5.2.5 and 1.8.3.10; RabbitMQ, "basic.nack"; MQTT 3.1.1, 3.2.2.3 and 3.9.3; MQTT 5, 3.2.2.2, 3.4.2.1 and 3.9.3.
    Broker,
    /// A stream's error, a login that failed, or a stanza whose error says that it is temporary (`type='wait'`): too many
    /// users in a room, accounts made too quickly, a quota. Source: RFC 6120, 4.9, 6.4.5 and 8.3.2.
    Xmpp,
    /// Any other error, of which the asker may be the cause: another status of 4xx, an error of a statement, a command, a
    /// stanza or a login, or what protocols of one's own say: `ERR`, `error`, `failed`, `{"error":`. Most answers of a good
    /// service are none. Source: as of the others; RFC 9110, 15.5; RESP, "simple errors"; RFC 5321, 4.2.3.
    Error,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Http,
        Self::Reply,
        Self::Word,
        Self::Database,
        Self::Broker,
        Self::Xmpp,
        Self::Error,
    ];

    /// Its place among all.
    pub fn index(self) -> usize {
        self as usize
    }

    /// In words: `HTTP status 503`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Http => "HTTP status 400, 408, 413, 414, 429, 431 or 5xx",
            Self::Reply => {
                "reply 421, 425, 45x, 500 OOPS, 530 or 554, or DNS's SERVFAIL or REFUSED"
            }
            Self::Word => {
                "a word that refuses (BUSY, -OOM, -READONLY, SERVER_ERROR, DRAINING, NO, @ERROR)"
            }
            Self::Database => {
                "FATAL, or an error of the database's own: connections, space, locks, read-only"
            }
            Self::Broker => "a close, a refusal or a message given back in the broker's protocol",
            Self::Xmpp => "a stream error, a failed login, or an error that says to wait",
            Self::Error => "an error: another status of 4xx, or of a command, statement or login",
        }
    }
}

/// What the beginning of an answer says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Says {
    /// A refusal.
    No(Refusal),
    /// The client is let in: it has logged in, or has a channel. Source: PostgreSQL, "Start-up" (ParameterStatus, behind
    /// AuthenticationOk); MySQL, "Connection Phase" (`OK_Packet`, by its number); AMQP 0-9-1, 1.4.2.6 and 1.5.2.2; MQTT 3.1.1 and 5, 3.2.
    Welcome,
}

impl Says {
    const WELCOME: i32 = 2;

    /// How many bytes more of a packet's headers stand for it: fewer by 1 to 6, of the last six of 20, which are not read, or one
    /// or two more, of the options.
    pub fn more(self) -> i32 {
        match self {
            Self::Welcome => Self::WELCOME,
            Self::No(Refusal::Error) => 1,
            Self::No(refusal) => -1 - refusal as i32,
        }
    }

    /// By the number of bytes more than 20.
    pub fn of_more(bytes: i32) -> Option<Self> {
        let all = Refusal::ALL.into_iter().map(Self::No).chain([Self::Welcome]);
        all.into_iter().find(|of| of.more() == bytes)
    }
}

/// Four bytes of an answer, as a number in network order: `(offset, mask, value)`.
pub type Word = (u32, u32, u32);

/// The beginning of an answer that says something.
#[derive(Clone, Copy, Debug)]
pub struct Sign {
    /// What.
    pub says: Says,
    /// All must match; the first is at the beginning where its mask is whole.
    pub words: &'static [Word],
}

/// Answers are examined up to here. Unit: bytes.
pub const LOOKED_AT: u32 = 25;

/// Messages of PostgreSQL that stand before an error which comes later in the answer: AuthenticationOk, ParseComplete,
/// BindComplete, NoData, RowDescription and ParameterDescription. A byte of these, and a length that counts itself, in four bytes.
/// Source: PostgreSQL, "Message Formats" and "Extended Query".
pub const PASSED: &[u8] = b"R12nTt";

/// So many of them are passed. Chosen: a statement that is prepared and described has four before its rows.
pub const PASSED_AT_MOST: usize = 4;

/// Longer ones are none: text that begins with these letters. Chosen: a thousand columns.
pub const PASSED_LENGTH: u32 = 1 << 16;

/// How stanzas of XMPP begin, in which what is [`SOUGHT`] may stand further in. Source: RFC 6120, 8.
pub const STANZAS: [[u8; 4]; 3] = [*b"<pre", *b"<mes", *b"<iq "];

/// An attribute of a stanza, of which two words are compared wherever it is: a word that begins at a multiple of four bytes is
/// one of the second ones, and the one before it is the first.
pub type Attribute = [([u8; 4], [u8; 4]); 4];

/// What is looked for in stanzas, one after the other, and what a stanza is that has it: its own type, and that of the error within.
pub const SOUGHT: [(Attribute, Refusal); 2] = [(FAILED, Refusal::Error), (WAIT, Refusal::Xmpp)];

/// Up to so many bytes for each, the second from the first on. Chosen: beyond two addresses of eighty bytes.
pub const FAR: [u32; 2] = [224, 96];

/// The same, as far as the filter has room for in older kernels (20 KiB). Chosen: of two addresses of thirty bytes.
pub const NEAR: [u32; 2] = [96, 32];

/// `type='wait'`.
const WAIT: Attribute =
    [(*b"type", *b"='wa"), (*b"ype=", *b"'wai"), (*b"pe='", *b"wait"), (*b"e='w", *b"ait'")];

/// `type='error'`.
const FAILED: Attribute =
    [(*b"type", *b"='er"), (*b"ype=", *b"'err"), (*b"pe='", *b"erro"), (*b"e='e", *b"rror")];

/// Words between two looks at how much of it is left.
pub const STEPS_AT_ONCE: u32 = 8;

const ALL: u32 = u32::MAX;
const FIRST: u32 = 0xff00_0000;
const HALF: u32 = 0xffff_0000;

const fn at(offset: u32, text: [u8; 4]) -> Word {
    (offset, ALL, u32::from_be_bytes(text))
}

macro_rules! signs {
    (@ Welcome) => { Says::Welcome };
    (@ $refusal:ident) => { Says::No(Refusal::$refusal) };
    ($($says:ident: $($word:expr),+;)+) => {
        &[$(Sign { says: signs!(@ $says), words: &[$($word),+] }),+]
    };
}

/// All that are known.
pub const SIGNS: &[Sign] = signs! {
    Http: at(0, *b"HTTP"), at(9, *b"400 ");
    Http: at(0, *b"HTTP"), at(9, *b"408 ");
    Http: at(0, *b"HTTP"), at(9, *b"413 ");
    Http: at(0, *b"HTTP"), at(9, *b"414 ");
    Http: at(0, *b"HTTP"), at(9, *b"429 ");
    Http: at(0, *b"HTTP"), at(9, *b"431 ");
    Http: at(0, *b"HTTP"), (9, FIRST, 0x3500_0000);
    Reply: at(0, *b"421 ");
    Reply: at(0, *b"421-");
    Reply: at(0, *b"425 ");
    Reply: at(0, *b"500 "), at(4, *b"OOPS");
    Reply: at(0, *b"450 ");
    Reply: at(0, *b"451 ");
    Reply: at(0, *b"452 ");
    Reply: at(0, *b"454 ");
    Reply: at(0, *b"530 ");
    Reply: at(0, *b"554 ");
    // DNS: a length below 1,024; an answer with this code to one question, and without records.
    Reply: (4, 0xf80f_ffff, 0x8002_0001), (8, 0xffff_0000, 0), (0, 0xfc00_0000, 0);
    Reply: (4, 0xf80f_ffff, 0x8005_0001), (8, 0xffff_0000, 0), (0, 0xfc00_0000, 0);
    Word: at(0, *b"-ERR"), at(4, *b" max");
    Word: at(0, *b"-ERR"), at(4, *b" 'ma");
    Word: at(0, *b"-ERR"), at(4, *b" [IN");
    Word: at(0, *b"-ERR"), at(4, *b" [SY");
    Word: at(0, *b"-OOM");
    // Not `-BUSYGROUP`, which says that a consumer's group is there.
    Word: at(0, *b"-BUS"), (4, 0xffff_0000, 0x5920_0000);
    Word: at(0, *b"-LOA");
    Word: at(0, *b"-MIS");
    Word: at(0, *b"-MAS");
    Word: at(0, *b"-CLU");
    Word: at(0, *b"-NOA");
    // NOREPLICAS, NOPERM, READONLY, TRYAGAIN, DENIED.
    Word: at(0, *b"-NOR");
    Word: at(0, *b"-NOP");
    Word: at(0, *b"-REA");
    Word: at(0, *b"-TRY");
    Word: at(0, *b"-DEN");
    Word: at(0, *b"SERV"), at(4, *b"ER_E");
    Word: at(0, *b"DRAI"), at(4, *b"NING");
    Word: at(0, *b"OUT_"), at(4, *b"OF_M");
    Word: at(0, *b"JOB_"), at(4, *b"TOO_");
    Word: at(0, *b"BURI"), at(4, *b"ED\r\n");
    Word: at(0, *b"@ERR"), at(4, *b"OR: ");
    Word: at(0, *b"* BY"), (4, 0xffff_ff00, 0x4520_5b00);
    Word: at(0, *b"BUSY");
    Word: at(0, *b"busy");
    Word: at(0, *b"REJE");
    Word: at(0, *b"reje");
    Word: at(0, *b"NACK");
    Word: at(0, *b"nack");
    Word: at(0, *b"DENI");
    Word: at(0, *b"OVER"), at(4, *b"LOAD");
    Word: at(0, *b"over"), at(4, *b"load");
    Broker: at(0, [0x20, 2, 0, 1]);
    Broker: at(0, [0x20, 2, 0, 2]);
    Broker: at(0, [0x20, 2, 0, 3]);
    Broker: at(0, [0x20, 2, 0, 4]);
    Broker: at(0, [0x20, 2, 0, 5]);
    // MQTT's SUBACK of one topic, of version 3.1.1 and 5, and version 5's PUBACK: a reason of 0x80 and more.
    Broker: (1, 0x80, 0x80), (0, HALF, 0x9003_0000);
    Broker: (2, 0xff80, 0x80), (0, HALF, 0x9004_0000);
    Broker: (1, 0x80, 0x80), (0, HALF, 0x4003_0000);
    Broker: (1, 0x80, 0x80), (0, HALF, 0x4004_0000);
    // Version 5's CONNACK of no properties: flags, and a reason.
    Broker: (1, 0xff, 0), (0, 0xffff_ffe0, 0x2003_0080);
    Xmpp: at(0, *b"<str"), at(4, *b"eam:"), at(8, *b"erro");
    Xmpp: at(0, *b"<fai"), at(4, *b"lure");
    Database: (0, FIRST, 0x4500_0000), at(5, *b"SFAT");
    // After `S`, `ERROR`, a zero, `V`, `ERROR`, a zero: `C` and the code.
    Database: (0, FIRST, 0x4500_0000), at(5, *b"SERR"), (18, 0x00ff_ffff, 0x0043_3430);
    Database: (0, FIRST, 0x4500_0000), at(5, *b"SERR"), (18, 0x00ff_ffff, 0x0043_3533);
    Database: (0, FIRST, 0x4500_0000), at(5, *b"SERR"), (18, 0x00ff_ffff, 0x0043_3537);
    Database: (0, FIRST, 0x4500_0000), at(5, *b"SERR"), at(19, *b"C250"), at(21, *b"5006");
    Database: (0, FIRST, 0x4500_0000), at(5, *b"SERR"), at(19, *b"C55P");
    Database: (4, 0xffff_ff00, 0xff10_0400);
    Database: (4, 0xffff_ff00, 0xffb3_0400);
    Database: (4, 0xffff_ff00, 0xffca_0400);
    Database: (4, 0xffff_ff00, 0xfffd_0300);
    Database: (4, 0xffff_ff00, 0xffb5_0400);
    Database: (4, 0xffff_ff00, 0xffbd_0400);
    Database: (4, 0xffff_ff00, 0xff0a_0500);
    Database: (4, 0xffff_ff00, 0xff2c_0700);
    // MySQL's at a login, whatever its code: the greeting is packet 0, the client's answer 1 or, of another method, 3.
    Database: (0, 0x00fc_fff9, 0), (4, 0xff00_00ff, 0xff00_0023);
    Broker: (0, 0xffff_0000, 0x0100_0000), at(7, [0, 10, 0, 50]);
    Broker: (0, 0xff00_0000, 0x0100_0000), at(7, [0, 20, 0, 40]);
    // A message that no queue takes, and one that is not kept.
    Broker: (0, 0xff00_0000, 0x0100_0000), at(7, [0, 60, 0, 50]);
    Broker: (0, 0xff00_0000, 0x0100_0000), at(7, [0, 60, 0, 120]);
    // A name in small letters behind the length.
    Welcome: at(0, *b"S\0\0\0"), (4, 0x0060_0000, 0x0060_0000);
    Welcome: at(0, [7, 0, 0, 2]);
    Welcome: at(0, [0x20, 2, 0, 0]);
    Welcome: (0, 0xffff_feff, 0x2002_0000);
    Welcome: (1, 0xe0, 0), (0, 0xffe0_feff, 0x2000_0000);
    Welcome: (0, FIRST, 0x0100_0000), at(7, [0, 10, 0, 41]);
    Welcome: at(7, [0, 20, 0, 11]);
    // IMAP's tags are the client's: one to six characters.
    Word: at(1, *b" NO "), (5, FIRST, 0x5b00_0000);
    Word: at(2, *b" NO "), (6, FIRST, 0x5b00_0000);
    Word: at(3, *b" NO "), (7, FIRST, 0x5b00_0000);
    Word: at(4, *b" NO "), (8, FIRST, 0x5b00_0000);
    Word: at(5, *b" NO "), (9, FIRST, 0x5b00_0000);
    Word: at(6, *b" NO "), (10, FIRST, 0x5b00_0000);
    Error: at(0, *b"HTTP"), (9, FIRST, 0x3400_0000);
    // As long as the others that begin so.
    Error: at(0, *b"-ERR"), (4, 0, 0);
    Error: at(0, *b"-WRO");
    Error: at(0, *b"-EXE");
    Error: at(0, *b"CLIE"), at(4, *b"NT_E");
    Error: at(0, *b"ERR ");
    Error: at(0, *b"ERR:");
    Error: at(0, *b"ERR\r");
    Error: at(0, *b"ERR\n");
    Error: at(0, *b"ERR,");
    Error: at(0, *b"ERRO");
    Error: at(0, *b"Erro");
    Error: at(0, *b"erro");
    Error: at(0, *b"err ");
    Error: at(0, *b"err:");
    Error: at(0, *b"err\n");
    Error: at(0, *b"FAIL");
    Error: at(0, *b"fail");
    Error: at(0, *b"{\"er"), at(4, *b"ror\"");
    Error: at(0, *b"503 ");
    Error: at(0, *b"535 ");
    Error: at(0, *b"550 ");
    Error: at(0, *b"552 ");
    Error: at(0, *b"553 ");
    Error: (0, FIRST, 0x4500_0000), at(5, *b"SERR");
    // MySQL's, of any code; a length below 1,024.
    Error: (0, 0x00fc_ff00, 0), (4, 0xff00_00ff, 0xff00_0023);
};

impl Sign {
    /// How many bytes of an answer it examines.
    pub fn length(&self) -> u32 {
        self.words.iter().map(|(offset, ..)| offset + 4).max().unwrap_or(0)
    }

    /// Whether it begins with the whole first word of the answer, which is loaded once for all such signs.
    pub fn has_first_word(&self) -> bool {
        let (offset, mask, _) = self.words[0];
        offset == 0 && mask == u32::MAX
    }

    /// Whether what it says is a whole answer, shorter than [`LOOKED_AT`], which it tells by less than the first word.
    pub fn is_short_welcome(&self) -> bool {
        self.says == Says::Welcome && !self.has_first_word()
    }

    /// Whether an answer begins so; it has at least [`LOOKED_AT`] bytes, or no more are examined.
    pub fn is_in(&self, answer: &[u8]) -> bool {
        self.words.iter().all(|(offset, mask, value)| {
            let four = answer.get(*offset as usize..).and_then(|rest| rest.first_chunk());
            four.is_some_and(|four| u32::from_be_bytes(*four) & mask == *value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(answer: &[u8]) -> Option<Says> {
        SIGNS.iter().find(|sign| sign.is_in(answer)).map(|sign| sign.says)
    }

    #[test]
    fn each_protocol_says_no_in_its_own_words_and_a_good_answer_is_none() {
        for (answer, expected) in [
            (&b"HTTP/1.1 429 Too Many Requests"[..], Some(Refusal::Http)),
            (&b"HTTP/1.1 408 Request Timeout"[..], Some(Refusal::Http)),
            (&b"HTTP/1.1 413 Request Entity Too Large"[..], Some(Refusal::Http)),
            (b"HTTP/1.0 503 Service Unavailable", Some(Refusal::Http)),
            (b"HTTP/1.1 400 Bad Request\r\nServer", Some(Refusal::Http)),
            (b"HTTP/1.1 431 Request Header Fields", Some(Refusal::Http)),
            (b"HTTP/1.1 403 Forbidden\r\nServer", Some(Refusal::Error)),
            (b"HTTP/1.1 200 OK\r\nServer: x", None),
            (b"HTTP/1.1 404 Not Found\r\n", Some(Refusal::Error)),
            (b"421 too many connections\r\n", Some(Refusal::Reply)),
            (b"425 Can't open data connection.\r\n", Some(Refusal::Reply)),
            (b"500 OOPS: vsf_sysutil_bind\r\n", Some(Refusal::Reply)),
            (b"500 Unknown command.\r\n", None),
            (b"250 2.1.0 Ok\r\n", None),
            (b"535 5.7.8 Error: authentication failed", Some(Refusal::Error)),
            (b"ERROR unknown account\n", Some(Refusal::Error)),
            (b"error: no such desk\n", Some(Refusal::Error)),
            (b"{\"error\":\"no such desk\"}", Some(Refusal::Error)),
            (b"busy\n", Some(Refusal::Word)),
            (b"overloaded, try again\n", Some(Refusal::Word)),
            (b"errands: 4\n", None),
            (b"\0\x1d\x12\x34\x81\x82\0\x01\0\0\0\0\0\0\x03www", Some(Refusal::Reply)),
            (b"\0\x1d\x12\x34\x81\x85\0\x01\0\0\0\0\0\0\x03www", Some(Refusal::Reply)),
            (b"\0\x1d\x12\x34\x81\x83\0\x01\0\0\0\x01\0\0\x03www", None),
            (b"\0\x2d\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x03www", None),
            (b"4210\r\n", None),
            (b"-ERR max number of clients reached\r\n", Some(Refusal::Word)),
            (b"-ERR unknown command 'CLIENT'\r\n", Some(Refusal::Error)),
            (b"-BUSY Redis is busy running a script", Some(Refusal::Word)),
            (b"-BUSYGROUP Consumer Group name already exists", None),
            (b"SERVER_ERROR out of memory\r\n", Some(Refusal::Word)),
            (b"DRAINING\r\n", Some(Refusal::Word)),
            (b"INSERTED 17\r\n", None),
            (b"@ERROR: max connections (2) reached", Some(Refusal::Word)),
            (b"@RSYNCD: 31.0\n", None),
            (b"a001 NO [LIMIT] Maximum number of", Some(Refusal::Word)),
            (b"* BYE [LIMIT] Too many", Some(Refusal::Word)),
            (b"* BYE Logging out\r\n", None),
            (b"E\0\0\0\x61SFATAL\0VFATAL\0C53300", Some(Refusal::Database)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C42P01", Some(Refusal::Error)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C53300", Some(Refusal::Database)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C57014", Some(Refusal::Database)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C40001", Some(Refusal::Database)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C25006", Some(Refusal::Database)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C25P02", Some(Refusal::Error)),
            (b"E\0\0\0\x61SERROR\0VERROR\0C55P03", Some(Refusal::Database)),
            (b"\x4d\0\0\x01\xff\x0a\x05#HY000The MySQL server is", Some(Refusal::Database)),
            (b"\x4d\0\0\x01\xff\x7a\x04#42S02Table 'x' doesn't", Some(Refusal::Error)),
            (b"\x4d\0\0\x02\xff\x36\x10#HY000User is blocked", Some(Refusal::Database)),
            (b"\x4d\0\0\x04\xff\x15\x04#28000Access denied", Some(Refusal::Database)),
            (b"-NOREPLICAS Not enough good replicas to write.\r\n", Some(Refusal::Word)),
            (b"-READONLY You can't write against a read only", Some(Refusal::Word)),
            (b"-NOSCRIPT No matching script", None),
            (b"-WRONGTYPE Operation against a key holding", Some(Refusal::Error)),
            (b"\x17\0\0\0\xff\x10\x04Too many connections", Some(Refusal::Database)),
            (b"\x01\0\0\0\0\0\x40\0\x0a\0\x32\x02\x12NOT_ALLOWED", Some(Refusal::Broker)),
            (b"\x01\0\0\0\0\0\x04\0\x0a\0\x33\xce", None),
            (b"\x01\0\x01\0\0\0\x1c\0\x3c\0\x32\x01\x38\x08NO_ROUTE", Some(Refusal::Broker)),
            (b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x78\0\0\0\0\0\0\0\x01", Some(Refusal::Broker)),
            (b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x01", None),
            (b"\x20\x02\0\x03", Some(Refusal::Broker)),
            (b"\x90\x03\0\x07\x80", Some(Refusal::Broker)),
            (b"\x90\x03\0\x07\x01", None),
            (b"\x90\x04\0\x07\0\x8f", Some(Refusal::Broker)),
            (b"\x90\x04\0\x07\0\0", None),
            (b"\x40\x03\0\x07\x87", Some(Refusal::Broker)),
            (b"\x40\x02\0\x87", None),
            (b"\x20\x03\0\x87\0", Some(Refusal::Broker)),
            (b"<stream:error><policy-violation", Some(Refusal::Xmpp)),
            (b"<stream:features><mechanisms", None),
        ] {
            assert_eq!(says(answer), expected.map(Says::No), "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn who_is_let_in_hears_so_in_the_first_bytes() {
        for answer in [
            &b"S\0\0\0\x16application_name\0\0S"[..],
            b"\x07\0\0\x02\0\0\0\x02\0\0\0",
            b"\x20\x02\0\0",
            b"\x20\x09\0\0\x06\x22\0\x0a\x21\0\x14",
            b"\x20\x03\x01\0\0",
            b"\x20\x02\x01\0",
            b"\x01\0\0\0\0\0\x05\0\x0a\0\x29\0\xce",
            b"\x01\0\x01\0\0\0\x08\0\x14\0\x0b\0\0\0\0\xce",
        ] {
            assert_eq!(says(answer), Some(Says::Welcome), "{}", answer.escape_ascii());
        }
        // An OK to a statement, a tune, a delivery.
        for answer in [
            &b"\x07\0\0\x01\0\0\0\x02\0\0\0"[..],
            b"\x01\0\0\0\0\0\x0c\0\x0a\0\x1e\x07\xff",
            b"\x01\0\x01\0\0\0\x1c\0\x3c\0\x3c\x01\x38\x08",
        ] {
            assert_eq!(says(answer), None, "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn none_looks_further_than_it_may_and_each_has_a_length_of_its_own() {
        assert!(SIGNS.iter().all(|sign| sign.length() <= LOOKED_AT));
        for says in Refusal::ALL.map(Says::No).into_iter().chain([Says::Welcome]) {
            assert_eq!(Says::of_more(says.more()), Some(says));
        }
        assert_eq!((Says::of_more(0), Says::of_more(-7)), (None, None));
    }
}
