//! Limits of TCP itself: windows, buffers, timers, pacing, its queues, ports and handshakes.

pub(super) mod acceptor;
pub(super) mod bbr_pacing;
pub(super) mod buffers;
pub(super) mod connection_churn;
pub(super) mod cork;
pub(super) mod ephemeral_ports;
pub(super) mod initial_window;
pub(super) mod listen_backlog;
pub(super) mod nagle_delayed_ack;
pub(super) mod pacing;
pub(super) mod slow_reader;
pub(super) mod slow_start_after_idle;
