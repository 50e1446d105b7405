//! Small TLS records: each small write is encrypted, framed and sent by itself.
//! `work = records that fewer, full ones would spare x least price of one`
//! Source: tls_sender of OTP's ssl; RFC 8446, 5.1.

use crate::prelude::*;

// Source: RFC 8446, 5.1: 2^14 bytes at most.
const RECORD: f64 = 16_384.0;

// Measured: OTP 25, 2.5 GHz: CPU time of a record of 100 bytes, the least of 10 to 20 us. Unit: seconds.
const OTP_PRICE: f64 = 10e-6;

// Measured: nginx 1.22, OpenSSL 3.0, 2.5 GHz: 1,000 records of 1 KiB instead of 62 took 2.8 ms more. Unit: seconds.
const PRICE: f64 = 2.8e-6;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.speaks_tls()?;
    let (writes, sent, price) =
        writes(facts).or_else(|not| records(facts).or_else(|| calls(facts)).ok_or(not))?;
    let (size, what) = (bytes(sent / writes), facts.each());
    let spared = writes - (sent / RECORD).max(1.0);
    silent_if(spared <= 0.0, format!("{writes:.1} writes of {size} for {what} are few"))?;
    let work = facts.target_work()?;
    let [works, of_one] = [work, price].map(duration);
    let by_hand = "larger records (nginx: ssl_buffer_size 16k; haproxy: tune.ssl.maxrecord 0); in the application: collect \
                   an answer, and write it once (Erlang: iodata, one ssl:send/2)";
    let does = "writes an answer at once, in records of 16 KiB";
    Ok(Claim::priced(spared * price, work)
        .sum(format!("{writes:.0} records of {size} for {what}, {of_one} each at least"))
        .seen(format!(
            "{writes:.0} records of {size} were sent for {what}, for which it works {works}"
        ))
        .at_least(Least::OfBothEnds)
        .lifted_by([Remedy::by_knob(("piece", "0"), does, by_hand)]))
}

/// Records and bytes of an exchange at our own connections, and a record's least price.
fn records(facts: &Facts) -> Option<(f64, f64, f64)> {
    let load = facts.run.load;
    let each = |count: u64| count as f64 / load.exchanges.max(1) as f64;
    // A library of ciphers has little of what OTP does for a record, and most of what a driver that is not OTP's does.
    let in_library = share_of(&facts.run, code::SAMPLES, code::CIPHERS).unwrap_or(0.0) >= HOLDS;
    let price = if facts.has_schedulers() && !in_library { OTP_PRICE } else { PRICE };
    (load.records_read > 0).then(|| (each(load.records_read), each(load.bytes_read), price))
}

/// Calls that wrote and their bytes for an answer of a watched service: a program that encrypts by itself writes each record
/// by a call. Few may be lines of a log. A record costs what its call takes at the least.
fn calls(facts: &Facts) -> Option<(f64, f64, f64)> {
    let (run, target) = (&facts.run, facts.target_cpu().ok()?);
    let of = run.of(Subject::Target);
    let calls = of.rate(process::WRITE_CALLS).ok()?;
    let count = facts.per_exchange(calls);
    let bytes = facts.per_exchange(of.rate(process::WRITTEN).ok()?);
    let writes = |name: &str| ["write", "writev"].contains(&name);
    let in_writes = run.fact(Subject::Target, "busiest_call").filter(|name| writes(name));
    let share = share_of(run, kernel_code::SAMPLES, kernel_code::BUSIEST);
    let spent = in_writes.and(share).unwrap_or(0.0) * target.kernel * target.cores;
    (count >= FEW).then(|| (count, bytes, PRICE.max(spent / calls)))
}

/// The same of writes at the sampled connections, by the node's driver.
fn writes(facts: &Facts) -> Result<(f64, f64, f64), Missing> {
    let (run, load) = (&facts.run, facts.run.load);
    let (mut count, mut bytes, mut read) = (0.0, 0.0, 0.0);
    // Channels to other nodes are no clients.
    let clients = run.ends(Side::Server).filter(|end| run.fact(*end, "peer_node").is_none());
    for flow in clients.map(|end| run.of(end)) {
        let [sent, received] = [port::SEND_OCT, port::RECV_OCT].map(|metric| flow.grown(metric));
        if let (Ok(writes), Ok(sent), Ok(received)) = (flow.grown(port::SEND_CNT), sent, received) {
            (count, bytes, read) = (count + writes, bytes + sent, read + received);
        }
    }
    missing_if(count == 0.0, port::SEND_CNT.name, "flow/*/server")?;
    // Requests have the same size on all connections: bytes read show how many there were.
    let asked = load.bytes_written as f64 / load.exchanges.max(1) as f64;
    let made = facts.load == Load::Made;
    let exchanges = if made { read / asked.max(1.0) } else { load.exchanges as f64 }.max(1.0);
    Ok((count / exchanges, bytes / exchanges, OTP_PRICE))
}
