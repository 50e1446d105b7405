//! Small TLS records: each small write is encrypted, framed and sent by itself.
//!
//! `work = records that fewer, full ones would spare x what one costs at least`
//! Source: tls_sender of OTP's ssl; RFC 8446, 5.1.

use crate::facts::tls::priced;
use crate::prelude::*;

// Source: RFC 8446, 5.1: 2^14 bytes at most.
const RECORD: f64 = 16_384.0;

// Measured: OTP 25, 2.5 GHz: CPU time of a record of 100 bytes, of the 10 to 20 us that were seen the least.
// Unit: seconds.
const PRICE: f64 = 10e-6;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.speaks_tls()?;
    let (writes, bytes) = writes(facts)?;
    let (size, what) = (Bytes((bytes / writes) as u64), facts.each());
    let spared = writes - (bytes / RECORD).max(1.0);
    silent_if(spared <= 0.0, format!("{writes:.1} writes of {size} for {what} are not many"))?;
    let work = facts.target_work()?;
    let (known, part) = priced(spared * PRICE, work);
    let works = duration(work);
    Ok(Claim {
        known,
        sum: format!("{writes:.0} records of {size} for {what}, {} each at least", duration(PRICE)),
        seen: format!(
            "the node writes {writes:.0} times {size} for {what}, and works {works} for it"
        ),
        remedies: vec![Remedy::by_knob(
            ("piece", "0"),
            "writes an answer at once, in records of 16 KiB",
            "collect what is to be sent as iodata, and call ssl:send/2 once for an answer",
        )],
        ..Claim::cause(vec![part])
    })
}

/// Writes and bytes that the sampled connections wrote for an exchange, by the node's driver.
fn writes(facts: &Facts) -> Result<(f64, f64), Missing> {
    let run = &facts.run;
    let (mut count, mut bytes, mut read) = (0.0, 0.0, 0.0);
    for subject in run.ends(Side::Server) {
        // Channels to other nodes are no clients.
        if run.fact(subject, "peer_node").is_some() {
            continue;
        }
        let flow = run.of(subject);
        if let (Ok(writes), Ok(sent), Ok(received)) =
            (flow.grown(port::SEND_CNT), flow.grown(port::SEND_OCT), flow.grown(port::RECV_OCT))
        {
            count += writes;
            bytes += sent;
            read += received;
        }
    }
    if count == 0.0 {
        return Err(missing(port::SEND_CNT.name, "flow/*/server"));
    }
    // What an exchange asks is the same on every connection: bytes read tell how many there were.
    let asked = run.load.bytes_written as f64 / run.load.exchanges.max(1) as f64;
    let exchanges = match facts.load {
        Load::Made => read / asked.max(1.0),
        Load::Watched => run.load.exchanges as f64,
    };
    Ok((count / exchanges.max(1.0), bytes / exchanges.max(1.0)))
}
