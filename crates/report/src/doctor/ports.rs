//! Connections by state, listening port by listening port.

use linerate_account::{Held, Watched};
use serde::{Deserialize, Serialize};

use crate::number::finite;

/// The connections of one listening port: mean numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// The port.
    pub port: u16,
    /// All of them.
    pub connections: f64,
    /// Nothing under way.
    pub idle: f64,
    /// Established and accepted by nobody.
    pub accept_queue: f64,
    /// With bytes that the service has not read.
    pub unread: f64,
    /// In the midst of a request.
    #[serde(default)]
    pub asking: f64,
    /// In a handshake of TLS.
    #[serde(default)]
    pub tls_handshake: f64,
    /// Read and not answered.
    pub application: f64,
    /// With an answer held by Nagle until an ACK comes.
    pub held_nagle: f64,
    /// With one held by the congestion window.
    pub held_congestion: f64,
    /// With one held by the peer's receive window.
    pub held_window: f64,
    /// With one sent and not acknowledged.
    pub air: f64,
    /// Could be with the application as well as idle.
    pub undecided: f64,
    /// Asked before, and without a byte either way for as long as it was watched.
    #[serde(default)]
    pub unanswered: f64,
    /// Of these, the ones that the service has not even read.
    #[serde(default)]
    pub unanswered_unread: f64,
    /// Of these, the ones whose requests are as long as those of connections that were answered meanwhile.
    #[serde(default)]
    pub unanswered_alike: f64,
    /// What the headers of its packets tell; absent where they were not captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<Exchanges>,
}

/// Requests and answers as headers show them. `_us` are microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exchanges {
    /// Answered a second.
    pub per_s: f64,
    /// Asked and unanswered, on average.
    pub under_way: f64,
    /// From a request's last byte to its answer's first: mean.
    pub service_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Connections refused or reset a second.
    pub refused_per_s: f64,
    /// Connections opened a second.
    pub opened_per_s: f64,
    /// Whether requests and answers alternate; if not, the times say nothing.
    pub alternate: bool,
}

impl Port {
    pub(super) fn of(of: &Watched) -> Self {
        let us = |seconds: f64| finite(seconds * 1e6);
        let exchanges = of.exchanges.map(|of| Exchanges {
            per_s: finite(of.per_s),
            under_way: finite(of.under_way),
            service_us: us(of.service_s),
            p50_us: us(of.p50_s),
            p99_us: us(of.p99_s),
            refused_per_s: finite(of.refused_per_s),
            opened_per_s: finite(of.opened_per_s),
            alternate: of.alternate,
        });
        // Of those that end before they are sampled only the headers tell.
        let under_way = of.under_way() + of.untold() + of.unanswered;
        Self {
            port: of.port,
            connections: finite(of.connections.max(of.idle + under_way)),
            idle: finite(of.idle),
            accept_queue: finite(of.accept_queue),
            unread: finite(of.unread),
            asking: finite(of.asking()),
            tls_handshake: finite(of.shaking()),
            application: finite(of.in_application()),
            held_nagle: finite(of.held(Held::Nagle)),
            held_congestion: finite(of.held(Held::Congestion)),
            held_window: finite(of.held(Held::Window)),
            air: finite(of.air),
            undecided: finite(of.untold()),
            unanswered: finite(of.unanswered),
            unanswered_unread: finite(of.unanswered_unread),
            unanswered_alike: finite(of.unanswered_alike),
            exchanges,
        }
    }
}
