//! The kernel's netem: a pair of veth devices, and on each a queueing discipline that delays what leaves.
//!
//! Every parameter that was asked for is set, and `limit` always: netem's own default of 1,000 packets is a
//! queue of 60 ms at 200 Mbit/s that nobody asked for. netem holds what waits for the rate and what is in
//! delay in one place, so its limit is both: the queue, and what fits into the delay at the rate in packets
//! of 1,500 bytes.
//!
//! Blind spots: of smaller packets less than asked waits, as more of them fit into the delay. netem counts a
//! super-frame as one packet, so the devices make none where packets are counted, lost or paced. It does not
//! tell its losses from its drops, and tells nothing of what came in.
//!
//! Source: tc-netem(8); `sch_netem.c`.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use linerate_evidence::sources::link::DirectionReading;
use linerate_model::{Aqm, Bytes, OneDirection, Path, PathBackend, Queue};

use super::backend::{Backend, LaidLink, LinkEnd, LinkMeter, Meter};
use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::netns::{Ip, Netns};

/// Source: Ethernet's.
const MTU: &str = "1500";

/// Bytes of an Ethernet header, which netem counts and a path's rate does not.
const ETHERNET: u64 = 14;

/// What netem may hold where no limit is asked. Chosen: more than memory holds; a packet takes its place
/// only when it comes.
const NO_LIMIT: u64 = 100_000_000;

/// See the module.
pub(super) struct Netem;

impl Backend for Netem {
    fn name(&self) -> &'static str {
        "netem"
    }

    fn choice(&self) -> PathBackend {
        PathBackend::Netem
    }

    fn unable(&self, ip: Ip, asked: &Path) -> Option<String> {
        if let Some(part) = asked.directions().iter().find_map(foreign) {
            return Some(format!("netem has no {part}: write backend = \"line\""));
        }
        static THERE: OnceLock<Option<String>> = OnceLock::new();
        THERE.get_or_init(|| probe(ip)).clone()
    }

    fn join(
        &self,
        ip: Ip,
        [near, far]: [&LinkEnd<'_>; 2],
        asked: &Path,
        cancel: &Cancel,
    ) -> Result<Box<dyn LaidLink>, LayError> {
        let [out, back] = asked.directions();
        // Made with its peer in the other namespace, by that one's file: it has a name or is our own.
        near.netns.batch(&[
            "link set lo up".into(),
            format!(
                "link add dev {} type veth peer name {} netns {}",
                near.device,
                far.device,
                place(far.netns)
            ),
        ])?;
        let link = Laid {
            ends: [near, far].map(|end| (words(end.netns), end.device.clone())).into(),
            ip,
            there: true,
            last: Arc::default(),
        };
        for ((own, peer), way) in [(near, far), (far, near)].into_iter().zip([&out, &back]) {
            cancel.check()?;
            let device = own.device.as_str();
            let mut commands = vec![
                "link set lo up".into(),
                format!("link set {device} addrgenmode none"),
                format!("link set {device} mtu {MTU}"),
            ];
            if !asked.offload || counts(&out) || counts(&back) {
                commands.push(format!("link set {device} gso_max_segs 1"));
            }
            commands.extend([
                format!("link set {device} up"),
                format!("address add {} peer {} dev {device}", own.address, peer.address),
            ]);
            own.netns.batch(&commands)?;
            let arguments = qdisc(device, way);
            tc(ip, &words(own.netns), &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(Box::new(link))
    }
}

/// What netem does not do.
fn foreign(way: &OneDirection) -> Option<&'static str> {
    [
        (way.trace.is_some(), "trace"),
        (way.largest.is_some(), "size at which packets vanish (largest)"),
        (way.aqm == Aqm::Codel, "CoDel (aqm)"),
        (matches!(way.queue, Queue::Bytes(_)), "queue in bytes"),
        // Without a rate it sorts packets by when they are due.
        (!way.jitter.is_zero() && way.keep_order, "jitter that keeps the order (keep_order)"),
        (!way.jitter.is_zero() && way.rate.is_some(), "jitter beside a rate that loses the order"),
    ]
    .into_iter()
    .find(|(asked, _)| *asked)
    .map(|(_, part)| part)
}

/// Whether it matters how many packets a super-frame holds.
fn counts(way: &OneDirection) -> bool {
    let shares = [way.loss, way.duplicate, way.reorder];
    way.rate.is_some() || way.limit.is_some() || shares.iter().any(|share| share.0 > 0.0)
}

/// The words of `tc` that set a way's discipline.
fn qdisc(device: &str, way: &OneDirection) -> Vec<String> {
    let mut words: Vec<String> =
        ["qdisc", "replace", "dev", device, "root", "handle", "1:", "netem"].map(Into::into).into();
    let mut add = |text: String| words.extend(text.split(' ').map(str::to_owned));
    add(format!("limit {}", limit(way)));
    add(match way.jitter.is_zero() {
        true => format!("delay {}us", way.delay.as_nanos() as f64 / 1e3),
        false => format!(
            "delay {}us {}us",
            way.delay.as_nanos() as f64 / 1e3,
            way.jitter.as_nanos() as f64 / 1e3
        ),
    });
    let percent = |share: f64| format!("{}%", share * 100.0);
    if way.loss.0 > 0.0 {
        add(match gilbert_elliott(way) {
            Some((p, r)) => format!("loss gemodel {} {} 100% 0%", percent(p), percent(r)),
            None => format!("loss random {}", percent(way.loss.0)),
        });
    }
    if way.duplicate.0 > 0.0 {
        add(format!("duplicate {}", percent(way.duplicate.0)));
    }
    if way.reorder.0 > 0.0 {
        add(format!("reorder {}", percent(way.reorder.0)));
    }
    if let Some(rate) = way.rate {
        add(format!("rate {:.0}bit -{ETHERNET}", rate.0));
    }
    words
}

/// The chances to turn bad and to turn good again, where all is lost while bad: their stationary share is the
/// loss, and the mean stay the burst.
///
/// Source: Gilbert 1960, Elliott 1963; stationary p / (p + r), mean stay 1 / r.
fn gilbert_elliott(way: &OneDirection) -> Option<(f64, f64)> {
    if way.loss_burst <= 1.0 {
        return None;
    }
    let good_again = 1.0 / way.loss_burst;
    Some(((way.loss.0 * good_again / (1.0 - way.loss.0)).min(1.0), good_again))
}

/// All that the way holds, in packets: what was asked, or what waits and what is in delay meanwhile.
fn limit(way: &OneDirection) -> u64 {
    let own = way.rate.map_or(NO_LIMIT, |rate| {
        let delayed = (way.delay + way.jitter).as_secs_f64() * rate.0 / 8.0 / 1500.0;
        let queue = match way.queue {
            Queue::Packets(packets) => u64::from(packets),
            Queue::Bytes(bytes) => bytes.0 / 1500,
        };
        // One more is being sent.
        queue + delayed.ceil() as u64 + 1
    });
    own.min(way.limit.map_or(u64::MAX, u64::from))
}

/// Why this kernel has none; asked of a namespace that is made for it, once a process.
fn probe(ip: Ip) -> Option<String> {
    let name = format!("{}-n", crate::netns::prefix());
    let tried = Netns::add(Ip { verbose: false }, name).and_then(|scratch| {
        let arguments = ["qdisc", "add", "dev", "lo", "root", "netem", "limit", "1"];
        tc(Ip { verbose: false }, &words(&scratch), &arguments)
    });
    let reason = tried.err()?;
    ip.say(&format!("# no netem: {reason}"));
    Some("this kernel has no netem: load the module (`modprobe sch_netem`)".into())
}

/// The words of `ip` and `tc` that lead to a namespace.
fn words(netns: &Netns) -> Vec<String> {
    if netns.name.is_empty() { Vec::new() } else { vec!["-n".into(), netns.name.clone()] }
}

/// A namespace as `ip link` names it for a peer: our own by our pid.
fn place(netns: &Netns) -> String {
    if netns.name.is_empty() { std::process::id().to_string() } else { netns.name.clone() }
}

fn tc(ip: Ip, place: &[String], arguments: &[&str]) -> Result<String, LayError> {
    let all: Vec<&str> =
        place.iter().map(String::as_str).chain(arguments.iter().copied()).collect();
    ip.tool("tc", &all)
}

/// See the module. Ends with this.
#[derive(Debug)]
struct Laid {
    /// Words that lead to the namespace, and the device there.
    ends: Ends,
    ip: Ip,
    there: bool,
    last: Arc<Mutex<[DirectionReading; 2]>>,
}

/// Both, near and far.
type Ends = Arc<[(Vec<String>, String); 2]>;

impl LaidLink for Laid {
    fn meter(&self) -> LinkMeter {
        let (ends, last) = (Arc::clone(&self.ends), Arc::clone(&self.last));
        LinkMeter::new(Netem.name(), Arc::new(Statistics { ends, last }))
    }

    fn take_away(&mut self) -> Vec<String> {
        if !std::mem::take(&mut self.there) {
            return Vec::new();
        }
        let meter = Statistics { ends: Arc::clone(&self.ends), last: Arc::clone(&self.last) };
        meter.read();
        // One takes the other with it.
        let (place, device) = &self.ends[0];
        let mut arguments: Vec<&str> = place.iter().map(String::as_str).collect();
        arguments.extend(["link", "delete", device]);
        let error = self.ip.run(&arguments).err();
        error.map(|error| format!("device {device}, because {error}")).into_iter().collect()
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        self.take_away();
    }
}

struct Statistics {
    ends: Ends,
    /// What stands when the devices are gone.
    last: Arc<Mutex<[DirectionReading; 2]>>,
}

impl Meter for Statistics {
    fn read(&self) -> [DirectionReading; 2] {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        for (reading, (place, device)) in last.iter_mut().zip(self.ends.iter()) {
            let arguments = ["-s", "-j", "qdisc", "show", "dev", device];
            let told = tc(Ip { verbose: false }, place, &arguments);
            if let Some(told) = told.ok().as_deref().and_then(statistics) {
                *reading = told;
            }
        }
        *last
    }
}

/// Source: `print_tcstats2_attr`, iproute2's tc_util.c. Bytes and packets are those that left, and a
/// super-frame counts as the segments it holds.
fn statistics(json: &str) -> Option<DirectionReading> {
    let all: serde_json::Value = serde_json::from_str(json).ok()?;
    let netem = all.as_array()?.iter().find(|qdisc| qdisc["kind"] == "netem")?;
    let number = |key: &str| netem[key].as_u64();
    let packets = number("packets");
    Some(DirectionReading {
        packets_out: packets,
        bytes_out: number("bytes")
            .zip(packets)
            .map(|(bytes, packets)| Bytes(bytes.saturating_sub(packets * ETHERNET))),
        dropped: number("drops"),
        held: number("qlen"),
        ..DirectionReading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::{BitRate, Share};
    use std::time::Duration;

    fn path() -> Path {
        Path::of_rtt(Duration::from_millis(10))
    }

    fn command(path: &Path) -> String {
        qdisc("lr0", &path.directions()[0]).join(" ")
    }

    #[test]
    fn a_limit_is_always_set_and_never_the_kernels_default() {
        assert_eq!(
            command(&path()),
            "qdisc replace dev lr0 root handle 1: netem limit 100000000 delay 5000us"
        );
        let limited = Path { limit: Some(1000), ..path() };
        assert!(command(&limited).contains(" limit 1000 "));
        // 5 ms at 240 Mbit/s are 100 packets of 1500 bytes; 1000 wait, and one is being sent.
        let paced =
            Path { rate: Some(BitRate(240e6)), queue: Some(Queue::Packets(1000)), ..path() };
        assert!(command(&paced).contains(" limit 1101 "), "{}", command(&paced));
        assert!(command(&paced).ends_with(" rate 240000000bit -14"));
    }

    #[test]
    fn shares_are_percents_and_bursts_a_model_of_two_states() {
        let lossy = Path {
            loss: Share(0.02),
            duplicate: Share(0.001),
            reorder: Share(0.25),
            jitter: Duration::from_micros(250),
            keep_order: false,
            ..path()
        };
        assert!(
            command(&lossy)
                .ends_with("delay 5000us 250us loss random 2% duplicate 0.1% reorder 25%"),
            "{}",
            command(&lossy)
        );
        // Good again after 4 packets in the mean: 25 %. Bad after a good one: 0.2 x 0.25 / 0.8.
        let bursts = Path { loss: Share(0.2), loss_burst: 4.0, ..path() };
        assert!(
            command(&bursts).ends_with("loss gemodel 6.25% 25% 100% 0%"),
            "{}",
            command(&bursts)
        );
    }

    #[test]
    fn what_netem_can_not_do_is_named() {
        let part = |path: Path| foreign(&path.directions()[0]).unwrap_or_default();
        assert_eq!(part(path()), "");
        assert_eq!(part(Path { trace: Some("a".into()), ..path() }), "trace");
        let bytes = Some(Queue::Bytes(Bytes(65_536)));
        assert_eq!(
            part(Path { rate: Some(BitRate(1e6)), queue: bytes, ..path() }),
            "queue in bytes"
        );
        let jitter = Path { jitter: Duration::from_millis(1), ..path() };
        assert!(part(jitter).starts_with("jitter that keeps the order"));
    }

    #[test]
    fn what_the_kernel_counts_is_read_and_the_rest_is_missing() {
        // After the format of iproute2 6.1, written by hand: no kernel at hand has netem. The Ethernet
        // headers of 1000 packets are no part of the path's bytes.
        let json = r#"[{"kind":"netem","handle":"1:","root":true,"refcnt":2,
            "options":{"limit":1000,"delay":{"delay":0.005,"jitter":0,"correlation":0},"ecn":false,"gap":0},
            "bytes":1514000,"packets":1000,"drops":7,"overlimits":0,"requeues":0,"backlog":3028,"qlen":2}]"#;
        let reading = statistics(json).unwrap();
        assert_eq!(reading.packets_out, Some(1000));
        assert_eq!(reading.bytes_out, Some(Bytes(1_500_000)));
        assert_eq!((reading.dropped, reading.held), (Some(7), Some(2)));
        assert_eq!((reading.dropped_loss, reading.packets_in), (None, None));
        assert_eq!(statistics("[]"), None);
        assert_eq!(statistics("no such device"), None);
    }
}
