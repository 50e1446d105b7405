//! Bufferbloat: the queue before a line is never full, and every round trip includes it.
//! `each = queued packets / packets a second - round trip`
//! Source: RFC 7567; RFC 8289 (CoDel); Villamizar and Song, "High performance TCP in ANSNET", 1994 (one product); Gettys
//! and Nichols, "Bufferbloat: dark buffers in the Internet", 2011.

use crate::prelude::*;

// Source: RFC 5681, 3.1: windows double in a round trip; the first two end before a third queues. Unit: packets.
const GROWN: f64 = 2.0 * INITIAL_WINDOW;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (direction, _, used) = facts.fullest_direction()?;
    let (packets, name) = (direction.packets_of_a_crossing()?, &direction.name);
    let few =
        format!("an exchange is {packets:.1} packets on {name}: too few for a standing queue");
    silent_if(packets < GROWN, few)?;
    let (standing, words) =
        (direction.of.median(link::QUEUE)? as f64, |of: f64| duration(of.max(1e-6)));
    let leaves = direction.of.rate(link::PACKETS_OUT)?.max(1e-9);
    let wait = standing / leaves;
    let stands = format!("{standing:.0} packets / {leaves:.0} a second = {}", words(wait));
    silent_if(wait <= direction.rtt, format!("{stands} on {name}: no more than a round trip"))?;
    let (stood, rtt, used) = (duration(wait), words(direction.rtt), in_percent(used));
    let product = direction.bandwidth_delay().unwrap_or(GROWN);
    let enough = rounded_up(product.max(GROWN)).min(rounded_up(direction.asked.queue.packets()));
    let codel = "tc qdisc replace dev DEVICE root fq_codel on the router before the bottleneck (or as its shaper's \
                 child); at the ends: net.ipv4.tcp_notsent_lowat, a smaller SO_SNDBUF, bbr";
    let most = format!("removes most of {stood} from each round trip; the rate stays the same");
    let limited = format!("limits the queue to {}", words(enough as f64 / leaves));
    let by_hand = format!("a queue of {enough} packets (one bandwidth-delay product) there");
    Ok(Claim::delay(At::Path, wait - direction.rtt)
        .sum(format!("{stands} in the queue of {name}"))
        .seen(format!(
            "the queue of {name} took {stood} at its rate, on a round trip of {rtt}; {used} of the rate was used"
        ))
        .lifted_by([
            Remedy::plan((facts.run.path_key("aqm"), "codel"), most, codel),
            Remedy::plan((direction.knob("queue"), enough.to_string()), limited, by_hand),
        ]))
}
