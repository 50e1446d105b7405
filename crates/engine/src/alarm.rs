//! An alarm among a loop's sockets.
//!
//! A timeout of epoll arms a timer of the CPU at each sleep, which costs a virtual machine a microsecond or two. What a loop
//! waits for mostly stays the same over many sleeps, so one alarm is set ahead for it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use linerate_model::Timestamp;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Rings once, at an instant of [`crate::clock::now`].
pub(crate) struct Alarm {
    timer: OwnedFd,
    at: Timestamp,
}

impl Alarm {
    /// One that wakes who waits for `epoll`, with this data: only the edge is wanted of it.
    pub(crate) fn new(epoll: impl AsFd, data: u64) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(epoll, &timer, EventData::new_u64(data), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { timer, at: Timestamp(0) })
    }

    /// It rings then, and no more at the instant that was set before. An instant that is past: at once.
    pub(crate) fn set(&mut self, at: Timestamp) -> io::Result<()> {
        if at != self.at {
            self.at = at;
            let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
            let alarm = Itimerspec { it_interval, it_value: timespec(at.0) };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &alarm)?;
        }
        Ok(())
    }

    /// It has rung: the same instant is to be set again.
    pub(crate) fn rang(&mut self) {
        self.at = Timestamp(0);
    }
}

/// So many nanoseconds.
pub(crate) fn timespec(nanos: u64) -> Timespec {
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::CreateFlags;

    #[test]
    fn an_instant_that_is_past_rings_each_time_that_it_is_waited_for() {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let mut alarm = Alarm::new(&epoll, 7).unwrap();
        for _ in 0..3 {
            alarm.set(Timestamp(1)).unwrap();
            let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
            let patience = timespec(1_000_000_000);
            epoll::wait(&epoll, spare_capacity(&mut events), Some(&patience)).unwrap();
            assert_eq!(events.iter().map(|event| event.data.u64()).collect::<Vec<_>>(), [7]);
            alarm.rang();
        }
    }
}
