//! A path in front of a service that runs on this host already. The service stays where it is; the engine goes
//! behind the path.
//!
//! Where linerate has the host's network, the service is met as it stands, also one that listens on 127.0.0.1
//! only: the path's own two devices may carry loopback's addresses (`route_localnet`, a setting that goes with
//! them). An ordinary user's near side is a namespace of its own, and there the service's bytes are copied.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use linerate_model::{Client, Plan};

use crate::behind::Behind;
use crate::cancel::Cancel;
use crate::connect::is_local;
use crate::lab::Options;
use crate::lay_error::LayError;
use crate::listeners::holder_of;
use crate::targets::{End, address};

/// See the module.
#[derive(Debug)]
pub(crate) struct Front {
    behind: Behind,
    seen: Seen,
}

/// A service as it is seen through the path.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Where the engine connects to.
    pub address: SocketAddr,
    /// Whoever listened before there was a path.
    pub pid: Option<u32>,
    /// Whether its bytes are copied between the path and the host.
    pub copied: bool,
    /// The namespace of the engine's peers; none: this host.
    pub netns: Option<PathBuf>,
}

impl Front {
    /// Finds the service, and lays and proves the path to it.
    pub fn lay(
        plan: &Plan,
        asked: &linerate_model::Path,
        written: &str,
        options: &Options,
    ) -> Result<Self, LayError> {
        let cancel = Cancel(options.cancel.clone());
        let service = address::find(written, &cancel)?;
        if !is_local(service.ip()) {
            return Err(LayError::PathToAddress(written.to_owned()));
        }
        let pid = holder_of(service.port());
        let mut behind = Behind::lay(asked, &[], options)?;
        // A BEAM node that makes the load needs the loopback of its own namespace.
        let as_it_stands = behind.reaches_host() && plan.engine.client == Client::Own;
        let seen = match service.ip() {
            IpAddr::V4(ip) if as_it_stands => {
                behind.show(ip)?;
                Seen { address: service, pid, copied: false, netns: None }
            }
            _ => {
                behind.forward(service)?;
                let address = SocketAddr::from((behind.peer(), service.port()));
                Seen { address, pid, copied: true, netns: Some(behind.near()) }
            }
        };
        Ok(Self { behind, seen })
    }

    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }

    pub fn behind(&self) -> &Behind {
        &self.behind
    }

    /// Where the engine is.
    pub fn engine(&self) -> End {
        End { netns: self.behind.far(), ip: self.behind.own().into() }
    }

    /// Returns what is left.
    pub fn take_away(&mut self) -> Vec<String> {
        self.behind.take_away()
    }
}
