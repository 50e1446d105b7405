//! The sums over a port's connections.

/// The sums of one port's connections. Times in ns; all multiplied by how many connections one stands for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// See [`super::PACKETS`].
    pub packets: u64,
    /// See [`super::EXCHANGES`].
    pub exchanges: u64,
    /// See [`super::SERVICE_TIME`].
    pub service_time: u64,
    /// See [`super::REQUEST_TIME`].
    pub request_time: u64,
    /// See [`super::REQUEST_ACKS`].
    pub request_acks: u64,
    /// See [`super::REQUEST_HELD`].
    pub request_held: u64,
    /// See [`super::REQUEST_REACTION`].
    pub request_reaction: u64,
    /// See [`super::ASKED_AGAIN`].
    pub asked_again: u64,
    /// See [`super::AGAIN_TIME`].
    pub again_time: u64,
    /// See [`super::ANSWER_TIME`].
    pub answer_time: u64,
    /// See [`super::IDLE_TIME`].
    pub idle_time: u64,
    /// See [`super::ASKED_AREA`].
    pub asked_area: u64,
    /// See [`super::CONNECTIONS`].
    pub connections: u64,
    /// See [`super::OPENED`].
    pub opened: u64,
    /// See [`super::REFUSED`].
    pub refused: u64,
    /// See [`super::RESET`].
    pub reset: u64,
    /// See [`super::told_no`]; in the order of [`super::Refusal::ALL`].
    pub told_no: [u64; super::Refusal::ALL.len()],
    /// See [`super::TLS`].
    pub tls: u64,
    /// See [`super::HANDSHAKES`].
    pub handshakes: u64,
    /// See [`super::HANDSHAKE_TIME`].
    pub handshake_time: u64,
    /// See [`super::LOGINS`].
    pub logins: u64,
    /// See [`super::LOGIN_TIME`].
    pub login_time: u64,
    /// See [`super::SESSIONS`].
    pub sessions: u64,
    /// See [`super::SESSIONS_EXCHANGES`].
    pub session_exchanges: u64,
    /// See [`super::WAITERS_EXCHANGES`].
    pub waiters_exchanges: u64,
    /// See [`super::TRANSACTIONS`].
    pub transactions: u64,
    /// See [`super::UNANSWERED`].
    pub unanswered: u64,
    /// See [`super::HUNG_UP`].
    pub hung_up: u64,
    /// See [`super::DUPLEX`].
    pub duplex: u64,
    /// See [`super::UNASKED`].
    pub unasked: u64,
    /// See [`super::RESUMED`].
    pub resumed: u64,
    /// See [`super::MISSED`].
    pub missed: u64,
}
