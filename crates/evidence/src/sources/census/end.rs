//! One end of a connection, as far as a station needs it.
//!
//! Source: `struct inet_diag_msg`, `INET_DIAG_INFO` and `INET_DIAG_SKMEMINFO` of `linux/inet_diag.h`; for
//! where each number comes from, see [`tcp_info`](super::super::tcp_info).

use linerate_model::Timestamp;

use super::super::UnreadableSource;
use super::super::sock_diag::{self, Message, u32_at, u64_at};
use super::super::tcp_info::{INFO, SKMEMINFO};

/// One end at one instant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// When the kernel answered.
    pub at: Timestamp,
    /// `TCP_ESTABLISHED` is 1; the others as in `net/tcp_states.h`.
    pub state: u8,
    /// Bytes received and not read; the peer's FIN counts as one.
    pub rqueue: u32,
    /// Of the socket; 0 when no process holds it: not accepted yet, or closed already.
    pub inode: u32,
    /// What it sends. None: half open or in TIME-WAIT, or of a kernel before Linux 5.4.
    pub sender: Option<Sender>,
}

/// What an end has sent and has to send, and what it received.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sender {
    /// Bytes sent, each counted once, since connect.
    pub sent: u64,
    /// Bytes received in order, since connect.
    pub received: u64,
    /// Bytes written and never sent yet.
    pub notsent: u32,
    /// Bytes sent and not acknowledged.
    pub outstanding: u32,
    /// Segments taken to be on the path: `tcp_packets_in_flight`.
    pub in_flight: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Largest segment, in bytes.
    pub mss: u32,
    /// The window that the peer offers, in bytes.
    pub snd_wnd: u32,
    /// Whether something is being sent again, or its timer has doubled.
    pub is_repairing: bool,
    /// Shortest round trip, in microseconds. None: not measured.
    pub min_rtt: Option<u32>,
    /// Most memory that may be queued to send. 0: unknown.
    pub sndbuf: u32,
    /// Memory that is queued to send or unacknowledged.
    pub wmem_queued: u32,
}

impl End {
    /// Reads a `sock_diag` answer.
    pub fn read(at: Timestamp, bytes: &[u8]) -> Result<Self, UnreadableSource> {
        let message = Message::read(bytes)?;
        let mut end = Self {
            at,
            state: message.state,
            rqueue: message.rqueue,
            inode: message.inode,
            sender: None,
        };
        let (mut sndbuf, mut wmem_queued) = (0, 0);
        for (kind, value) in sock_diag::attributes(bytes) {
            match kind {
                INFO => end.sender = sender(value, message.wqueue),
                SKMEMINFO => {
                    sndbuf = u32_at(value, 12).unwrap_or(0);
                    wmem_queued = u32_at(value, 20).unwrap_or(0);
                }
                _ => {}
            }
        }
        if let Some(sender) = &mut end.sender {
            (sender.sndbuf, sender.wmem_queued) = (sndbuf, wmem_queued);
        }
        Ok(end)
    }
}

/// None where `struct tcp_info` ends before the peer's window, as it did before Linux 5.4.
fn sender(info: &[u8], wqueue: u32) -> Option<Sender> {
    let word = |at| u32_at(info, at);
    let (unacked, sacked, lost, retrans) = (word(24)?, word(28)?, word(32)?, word(36)?);
    let (notsent, min_rtt) = (word(144)?, word(148)?);
    let (backoff, retransmits) = (info.get(4)?, info.get(2)?);
    Some(Sender {
        sent: u64_at(info, 200)?.saturating_sub(u64_at(info, 208)?),
        received: u64_at(info, 128)?,
        notsent,
        outstanding: wqueue.saturating_sub(notsent),
        in_flight: unacked.saturating_sub(sacked.saturating_add(lost)).saturating_add(retrans),
        cwnd: word(80)?,
        mss: word(16)?,
        snd_wnd: word(228)?,
        is_repairing: retrans > 0 || lost > 0 || *backoff > 0 || *retransmits > 0,
        min_rtt: (min_rtt != 0 && min_rtt != u32::MAX).then_some(min_rtt),
        sndbuf: 0,
        wmem_queued: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::sock_diag::sample;
    use super::*;

    fn answer(info: usize) -> Vec<u8> {
        let mut bytes = vec![0_u8; 248];
        let mut word =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        word(16, 1_448);
        word(24, 9);
        word(28, 2);
        word(32, 1);
        word(36, 1);
        word(80, 10);
        word(144, 100);
        word(148, 40);
        word(228, 65_536);
        let mut wide =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        wide(128, 77);
        wide(200, 5_000);
        wide(208, 1_448);
        let mut answer = sample::message(1, 8080, 3, 8_100);
        answer[68..72].copy_from_slice(&42_u32.to_ne_bytes());
        sample::attribute(&mut answer, INFO, &bytes[..info]);
        let memory: Vec<u8> = (1..=9_u32).flat_map(|n| (n * 100).to_ne_bytes()).collect();
        sample::attribute(&mut answer, SKMEMINFO, &memory);
        answer
    }

    #[test]
    fn an_answer_is_taken_apart() {
        let end = End::read(Timestamp(9), &answer(248)).unwrap();
        assert_eq!((end.at, end.state, end.rqueue, end.inode), (Timestamp(9), 1, 3, 42));
        let expected = Sender {
            // 5,000 of which 1,448 were sent twice.
            sent: 3_552,
            received: 77,
            notsent: 100,
            // 8,100 written and not acknowledged, of which 100 were never sent.
            outstanding: 8_000,
            // 9 - (2 + 1) + 1
            in_flight: 7,
            cwnd: 10,
            mss: 1_448,
            snd_wnd: 65_536,
            is_repairing: true,
            min_rtt: Some(40),
            sndbuf: 400,
            wmem_queued: 600,
        };
        assert_eq!(end.sender, Some(expected));
    }

    #[test]
    fn a_kernel_that_tells_too_little_has_no_sender_and_a_short_answer_is_an_error() {
        // Linux 4.19 ends behind reord_seen.
        assert_eq!(End::read(Timestamp(9), &answer(224)).unwrap().sender, None);
        assert!(End::read(Timestamp(9), &answer(248)[..60]).is_err());
    }
}
