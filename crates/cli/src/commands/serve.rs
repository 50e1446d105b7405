//! `serve`: the far end of streams, for whoever runs `linerate run stream://HOST:PORT`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_engine::{Ended, FarEnd, FarEndOptions};
use linerate_model::{BitRate, Bytes};

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::plan_of::read;

/// See the module.
pub fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let size = |flag: &str, text: &Option<String>| -> Result<Option<Bytes>, Failure> {
        text.as_ref().map(|text| read(flag, text)).transpose()
    };
    let (recbuf, sndbuf) = (size("--recbuf", &args.recbuf)?, size("--sndbuf", &args.sndbuf)?);
    let bind = |ip: IpAddr| {
        let address = SocketAddr::new(ip, args.port);
        FarEnd::bind(&FarEndOptions { address, recbuf, sndbuf }).map_err(|error| (address, error))
    };
    let far = match args.bind {
        Some(ip) => bind(ip),
        // Without IPv6 there is only the other one.
        None => bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|(_, error)| match error.kind() {
            std::io::ErrorKind::AddrInUse | std::io::ErrorKind::PermissionDenied => {
                Err((SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), args.port), error))
            }
            _ => bind(Ipv4Addr::UNSPECIFIED.into()),
        }),
    };
    let far = far.map_err(|(address, error)| {
        let advice = match error.kind() {
            std::io::ErrorKind::AddrInUse => "; stop what listens there, or write another --port",
            std::io::ErrorKind::AddrNotAvailable => "; --bind takes an address of this host",
            _ => "",
        };
        Failure::run(format!("cannot listen on {address}: {error}{advice}"))
    })?;
    let address = far.address().map_err(|error| Failure::run(error.to_string()))?;
    let quiet = args.quiet;
    if !quiet {
        say(&format!(
            "serving streams on {address}; on any host: linerate run stream://{}",
            named(address)
        ));
    }
    let ended = far.serve(move |ended| {
        if !quiet {
            say(&told(&ended));
        }
    });
    Err(Failure::run(format!("cannot serve any more: {ended}")))
}

/// What to write for it elsewhere.
fn named(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("THIS-HOST:{}", address.port())
    } else {
        address.to_string()
    }
}

/// `10.0.0.7:4000 up: 11.2 GiB in 10.0 s = 9.62 Gbit/s`.
fn told(ended: &Ended) -> String {
    let Ended { peer, down, bytes, took } = *ended;
    let seconds = took.as_secs_f64();
    let rate = BitRate(bytes as f64 * 8.0 / seconds.max(1e-9));
    let way = if down { "down" } else { "up" };
    format!("{peer} {way}: {} in {seconds:.1} s = {rate}", Bytes(bytes))
}

/// A reader that went away hears no more of it.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
