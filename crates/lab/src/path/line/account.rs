//! What a line's thread has counted, where others can read it while it carries.
//!
//! The thread is the only writer but for the two maxima, which a reader takes and sets to zero; each number
//! is right by itself, and two of them may be of two instants some microseconds apart.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_evidence::sources::link::DirectionReading;
use linerate_model::Bytes;
use linerate_netpath::Counters;

/// One way's. See the module.
#[derive(Debug, Default)]
pub(super) struct Account {
    packets_in: AtomicU64,
    bytes_in: AtomicU64,
    packets_out: AtomicU64,
    bytes_out: AtomicU64,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
    dropped_queue: AtomicU64,
    dropped_limit: AtomicU64,
    dropped_loss: AtomicU64,
    dropped_size: AtomicU64,
    /// Frames that the far device did not take.
    refused: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    queue: AtomicU64,
    queue_most: AtomicU64,
    held: AtomicU64,
    held_most: AtomicU64,
    late_ns: AtomicU64,
    late_most_ns: AtomicU64,
    kernels: Mutex<Kernels>,
}

/// What the kernel counts; read when asked for, and kept when the line has gone.
#[derive(Debug, Default)]
struct Kernels {
    /// `/proc/self/task/TID/schedstat` of the thread.
    schedstat: Option<File>,
    /// `/proc/net/dev` of the near device's namespace, and the device's name.
    devices: Option<(File, String)>,
    cpu: Option<Duration>,
    device_dropped: Option<u64>,
}

/// What the thread itself counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    pub frames_in: u64,
    pub frames_out: u64,
    pub refused: u64,
    pub late: Duration,
    /// Since the last [`Account::publish`].
    pub late_most: Duration,
    /// Now.
    pub queue: u64,
    /// Since the last [`Account::publish`].
    pub queue_most: u64,
    /// Now.
    pub held: u64,
    /// Since the last [`Account::publish`].
    pub held_most: u64,
}

impl Account {
    /// One that reads a device's own drops from that file, `/proc/net/dev` of its namespace.
    pub fn of(devices: File, device: String) -> Self {
        let kernels = Kernels { devices: Some((devices, device)), ..Kernels::default() };
        Self { kernels: Mutex::new(kernels), ..Self::default() }
    }

    /// The calling thread is the one that carries.
    pub fn adopt(&self) {
        self.kernels().schedstat = File::open("/proc/thread-self/schedstat").ok();
    }

    pub fn publish(&self, counters: &Counters, own: &Own) {
        for (number, value) in [
            (&self.packets_in, counters.packets_in),
            (&self.bytes_in, counters.bytes_in),
            (&self.packets_out, counters.packets_out),
            (&self.bytes_out, counters.bytes_out),
            (&self.frames_in, own.frames_in),
            (&self.frames_out, own.frames_out),
            (&self.dropped_queue, counters.dropped_queue),
            (&self.dropped_limit, counters.dropped_limit),
            (&self.dropped_loss, counters.dropped_loss),
            (&self.dropped_size, counters.dropped_size),
            (&self.refused, own.refused),
            (&self.duplicated, counters.duplicated),
            (&self.reordered, counters.reordered),
            (&self.queue, own.queue),
            (&self.held, own.held),
            (&self.late_ns, own.late.as_nanos() as u64),
        ] {
            number.store(value, Relaxed);
        }
        for (most, value) in [
            (&self.queue_most, own.queue_most),
            (&self.held_most, own.held_most),
            (&self.late_most_ns, own.late_most.as_nanos() as u64),
        ] {
            // A plain look first: a locked instruction for each batch costs more than the batch's rest.
            if most.load(Relaxed) < value {
                most.fetch_max(value, Relaxed);
            }
        }
    }

    pub fn read(&self) -> DirectionReading {
        let number = |number: &AtomicU64| Some(number.load(Relaxed));
        // What is there now was there since.
        let most = |most: &AtomicU64, now: &AtomicU64| Some(most.swap(now.load(Relaxed), Relaxed));
        let refused = self.refused.load(Relaxed);
        let (cpu, device_dropped) = self.kernels().read();
        DirectionReading {
            packets_in: number(&self.packets_in),
            bytes_in: number(&self.bytes_in).map(Bytes),
            packets_out: number(&self.packets_out),
            bytes_out: number(&self.bytes_out).map(Bytes),
            frames_in: number(&self.frames_in),
            frames_out: number(&self.frames_out),
            dropped_queue: number(&self.dropped_queue),
            dropped_limit: number(&self.dropped_limit),
            dropped_loss: number(&self.dropped_loss),
            dropped_size: number(&self.dropped_size),
            dropped_device: device_dropped.map(|dropped| dropped + refused),
            // Each has its cause above.
            dropped: None,
            duplicated: number(&self.duplicated),
            reordered: number(&self.reordered),
            queue: number(&self.queue),
            queue_most: most(&self.queue_most, &self.queue),
            held: number(&self.held),
            held_most: most(&self.held_most, &self.held),
            late: number(&self.late_ns).map(Duration::from_nanos),
            late_most: Some(Duration::from_nanos(self.late_most_ns.swap(0, Relaxed))),
            cpu,
        }
    }

    /// Reads what the kernel counts for the last time: an open file would keep a namespace alive.
    pub fn close(&self) {
        let mut kernels = self.kernels();
        kernels.read();
        kernels.devices = None;
        kernels.schedstat = None;
    }

    fn kernels(&self) -> MutexGuard<'_, Kernels> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernels {
    fn read(&mut self) -> (Option<Duration>, Option<u64>) {
        if let Some(cpu) = self.schedstat.as_ref().and_then(text).as_deref().and_then(cpu) {
            self.cpu = Some(cpu);
        }
        if let Some((file, device)) = &self.devices
            && let Some(found) = text(file).as_deref().and_then(|text| dropped(text, device))
        {
            self.device_dropped = Some(found);
        }
        (self.cpu, self.device_dropped)
    }
}

fn text(file: &File) -> Option<String> {
    // Chosen: a line a device is 120 bytes, and a namespace of ours has a handful.
    let mut buffer = vec![0; 16_384];
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64).ok()? {
            0 => break,
            more => length += more,
        }
    }
    buffer.truncate(length);
    String::from_utf8(buffer).ok()
}

/// Source: proc_pid_schedstat(5): the first number is time on a CPU, in ns.
fn cpu(schedstat: &str) -> Option<Duration> {
    let word = schedstat.split_ascii_whitespace().next()?;
    word.parse().ok().map(Duration::from_nanos)
}

/// Packets for the line that its device had no room for.
///
/// Source: `dev_seq_printf_stats`, net/core/net-procfs.c: `NAME:`, 8 columns of what was received, then of
/// what was sent: bytes, packets, errors, dropped.
fn dropped(devices: &str, device: &str) -> Option<u64> {
    let line = devices
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_drops_are_the_fourth_of_what_was_sent() {
        let devices = "Inter-|   Receive  |  Transmit\n face |bytes packets\n\
             lr01: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n   lr0: 1 2 3 4 5 6 7 8 9 10 11 77 13 14 15 16\n";
        assert_eq!(dropped(devices, "lr0"), Some(77));
        assert_eq!(dropped(devices, "lr2"), None);
    }

    #[test]
    fn a_most_is_since_the_last_reading_and_never_less_than_what_is_there() {
        let account = Account::default();
        let own = Own { queue: 3, queue_most: 9, ..Own::default() };
        account.publish(&Counters::default(), &own);
        assert_eq!(account.read().queue_most, Some(9));
        assert_eq!(account.read().queue_most, Some(3));
        // Nobody asked the kernel: not told, and not zero.
        assert_eq!(account.read().cpu, None);
    }
}
