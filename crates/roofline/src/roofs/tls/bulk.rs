//! TLS in bulk: encrypting what the target sends, record by record, takes its CPU.
//! `work = CPU time in libraries of ciphers / throughput`, by samples of the target's code; without them, and at least of
//! a BEAM node, whose records are made in Erlang: `bytes an exchange x price of encrypting one`
//! Source: tls_sender of OTP's ssl; RFC 8446, 5.1 (a record carries 16 KiB at most).

use crate::prelude::*;

// Measured: OTP 25, 2.5 GHz, AES-256-GCM: 1.0 ns/B, and 0.3 for the same answers without TLS. Unit: seconds a byte.
const PRICE: f64 = 0.7e-9;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.speaks_tls()?;
    let load = facts.run.load;
    let sent = load.bytes_read.max(load.bytes_written) as f64 / load.exchanges.max(1) as f64;
    let work = facts.target_work()?;
    let least = sent * PRICE;
    // Without what handshakes may have of it.
    let shaking = facts.shaking().map_or(0.0, |(each, work)| work.unwrap_or(each));
    let measured = facts.in_ciphers().map(|each| (each - shaking).max(0.0));
    let measured = measured.filter(|each| !facts.is_beam() || *each > least);
    let each = measured.unwrap_or(least);
    let ([took, all], [size, rate]) =
        ([each, work].map(duration), [sent, sent * facts.attained].map(bytes));
    let share = (100.0 * each / work.max(1e-12)).min(100.0);
    let took = format!("{took} of the target's {all} of CPU time");
    let price = format!("{:.1} ns a byte", PRICE * 1e9);
    let (least, sum, by) = match measured {
        Some(_) => {
            (HALFWAY, format!("{took} are in a library of ciphers"), "by samples of its code")
        }
        None => (HOLDS, format!("{size} x {price} = {took}"), &*format!("at {price}")),
    };
    let by_hand = "a proxy that terminates TLS; more connections, where a single one is slow; writes of 16 KiB and more; \
                   AES-128-GCM; compression";
    let does = "moves encryption to a program that needs a tenth of the CPU, or to more cores";
    Ok(Claim::priced(each, work)
        .sized_if(each >= least * work)
        .sum(sum)
        .seen(format!("{rate}/s are encrypted; {by} that is {share:.0} % of the target's CPU time"))
        .at_least(Least::OfBothEnds)
        .lifted_by([Remedy::human(does, by_hand)]))
}
