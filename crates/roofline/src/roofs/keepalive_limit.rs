//! A limit of requests for each connection: the server closes after so many answers, and the next
//! exchange pays for a new connection.
//!
//! `ceiling = attained x (1 + cost of a connection / (K x cost of an exchange))` is what keeping them gives
//!
//! Told from tcp.connection-churn by the number: there each exchange opens a connection, here each K-th
//! does, and K is the same whole number on every connection.
//! Blind spot: connections that end for another reason blur the number; then it is not named.
//! Source: `max_keepalive` of cowboy, `max_keep_alive_request` of httpd, `keepalive_requests` of nginx.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::channels::knob;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Measured: an exchange on a connection of its own costs two to three exchanges (tcp.connection-churn).
const CONNECTION: f64 = 1.5;

// Measured: 2.4 ms for a handshake in OTP 25 against 50 us for an exchange (tls.handshake).
const HANDSHAKE: f64 = 40.0;

pub(super) struct KeepaliveLimit;

impl Roof for KeepaliveLimit {
    fn id(&self) -> &'static str {
        "http.keepalive-limit"
    }

    fn title(&self) -> &'static str {
        "a limit of requests for each connection"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/http.keepalive-limit.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_load() {
            return Ok(none);
        }
        let connections = u64::from(run.connections());
        let again = run.load.opened.saturating_sub(connections);
        if run.header.plan.opens_each() || again < 5 * connections {
            return Ok(Finding::DoesNotApply(format!(
                "{} connections for {} exchanges of {}: the server did not close them in turn",
                run.load.opened,
                run.load.answered,
                run.connections_words()
            )));
        }
        // Connections that were open at the end had half of theirs, on average.
        let each = run.load.answered as f64 / (again as f64 + connections as f64 / 2.0);
        let limit = each.round();
        let exact = (each - limit).abs() <= 0.05 * limit;
        let failed = run.load.errors.values().sum::<u64>() as f64;
        let clean = failed <= 0.01 * run.load.answered as f64;
        let price = if run.is_tls() { HANDSHAKE } else { CONNECTION };
        let gain = 1.0 + price / each.max(1.0);
        let attained = run.attained();
        let rate = OpRate(attained.0 * gain);
        let median = run.load.connect.at(50.0).map_or(0.0, |at| at.value as f64 / 1e9);
        let seen = format!(
            "each connection carried {each:.2} exchanges and was then closed; connecting takes {} of an \
             exchange's {}",
            duration(median),
            duration(run.load.service.mean() / 1e9)
        );
        // Chosen: a limit of two is churn, and one that costs less than a tenth is a setting like another.
        let binds = if limit >= 3.0 && exact && clean && gain >= 1.1 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let (knob, value) = knob(run, "max_requests", "0", "http.keepalive");
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{attained} x (1 + {price} exchanges a connection costs / {limit} it carries) = {rate}"
            ),
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "keeps connections for as long as the client wants them".into(),
                by_hand: "cowboy: max_keepalive => infinity; httpd: no {max_keep_alive_request, N}; nginx: \
                          keepalive_requests 1000000"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: rate,
                    high: OpRate(attained.0 * gain * 3.0),
                },
            }],
        }))
    }
}
