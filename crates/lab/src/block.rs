//! Addresses for a place behind a path: a block that nothing here is routed to yet, and that no other
//! linerate is about to take.
//!
//! A block's first address is the near side's, its second the far side's; its last three quarters are for
//! paths that begin behind it. So one route to the whole block reaches all of them, and no address needs
//! translation. Blocks of /22 hold paths five deep.

use std::fmt;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The device of a namespace through which everything leaves it.
pub(crate) const WAY_OUT: &str = "lr0";

/// Chosen: private, routed by default nowhere, used by few; the second for networks that route the whole
/// of the first's 10.0.0.0/8.
const POOLS: [Block; 2] =
    [Block::new(Ipv4Addr::new(10, 199, 0, 0), 16), Block::new(Ipv4Addr::new(172, 29, 0, 0), 16)];

/// Chosen: 64 paths at once in a pool.
const LARGEST: u8 = 22;

/// Four addresses: two and no more.
const SMALLEST: u8 = 30;

/// Addresses that share their first bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Block {
    first: u32,
    bits: u8,
}

/// A line of the kernel's table of routes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Route {
    device: String,
    to: Block,
}

/// A block that is ours in this network namespace, as long as this lives and however it ends.
#[derive(Debug)]
pub(crate) struct Claim {
    pub block: Block,
    _name: UnixDatagram,
}

impl Block {
    const fn new(first: Ipv4Addr, bits: u8) -> Self {
        Self { first: first.to_bits(), bits }
    }

    /// Of the side where linerate is.
    pub fn near(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first + 1)
    }

    /// Of the side behind the path.
    pub fn far(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first + 2)
    }

    fn overlaps(&self, other: &Block) -> bool {
        let bits = self.bits.min(other.bits);
        bits == 0 || (self.first ^ other.first) >> (32 - bits) == 0
    }

    /// The blocks of so many bits in it, but for the first `skip`.
    fn parts(&self, bits: u8, skip: u32) -> impl Iterator<Item = Block> + use<> {
        let first = self.first;
        (skip..1 << (bits - self.bits))
            .map(move |n| Block { first: first + (n << (32 - bits)), bits })
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.first), self.bits)
    }
}

/// The block behind whose path this namespace is, by its routes; none where it is behind none.
pub(crate) fn behind(routes: &[Route]) -> Option<Block> {
    let of_way_out = routes.iter().filter(|route| route.device == WAY_OUT).map(|route| route.to);
    of_way_out
        .filter(|to| (LARGEST..=SMALLEST).contains(&to.bits))
        .find(|to| POOLS.iter().any(|pool| pool.overlaps(to)))
}

/// Takes the first block that is free here; else the reason why there is none.
pub(crate) fn claim(routes: &[Route]) -> Result<Claim, String> {
    let free = |block: &Block, own: Option<Block>| {
        // Routes to everything, and to the block in which this is a part, lead elsewhere than to it.
        let other = |route: &&Route| route.to.bits > 0 && Some(route.to) != own;
        routes.iter().filter(other).all(|route| !route.to.overlaps(block))
    };
    let mine = |block: Block| {
        let name = SocketAddr::from_abstract_name(format!("linerate-path-{block}")).ok()?;
        let name = UnixDatagram::bind_addr(&name).ok()?;
        Some(Claim { block, _name: name })
    };
    if let Some(own) = behind(routes) {
        if own.bits == SMALLEST {
            return Err("paths can be nested five deep at most".into());
        }
        let parts = own.parts(own.bits + 2, 1).filter(|part| free(part, Some(own)));
        return parts.filter_map(mine).next().ok_or_else(|| {
            "three paths begin behind this one already: end one of them".to_owned()
        });
    }
    let all = || POOLS.iter().flat_map(|pool| pool.parts(LARGEST, 0));
    let found = all().filter(|part| free(part, None)).filter_map(mine).next();
    found.ok_or_else(|| {
        let [one, other] = POOLS;
        let holder = routes.iter().find(|route| route.to.bits > 0 && route.to.overlaps(&other));
        let holder = holder.map_or("by other paths".to_owned(), |route| {
            format!("as by the route {} dev {}", route.to, route.device)
        });
        format!("{one} and {other} are in use here, {holder}: end a path, or remove a route")
    })
}

/// The routes of the calling thread's network namespace, main table.
///
/// Source: `fib_route_seq_show`, net/ipv4/fib_trie.c: device, destination, gateway, flags, three counters,
/// mask; addresses in hexadecimal as they lie in memory.
pub(crate) fn routes(table: &str) -> Vec<Route> {
    let address = |word: &str| {
        u32::from_str_radix(word, 16).ok().map(|raw| u32::from_be_bytes(raw.to_ne_bytes()))
    };
    let route = |line: &str| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [device, to, _, _, _, _, _, mask, ..] = words[..] else { return None };
        let bits = address(mask)?.leading_ones() as u8;
        Some(Route { device: device.to_owned(), to: Block { first: address(to)?, bits } })
    };
    table.lines().skip(1).filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(device: &str, to: [u8; 4], bits: u8) -> Route {
        Route { device: device.into(), to: Block::new(Ipv4Addr::from(to), bits) }
    }

    #[test]
    fn the_kernels_table_is_read_as_it_lies_in_memory() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     lr0\t0004C70A\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0\n";
        let read = routes(table);
        if cfg!(target_endian = "little") {
            assert_eq!(read, [route("eth0", [0; 4], 0), route("lr0", [10, 199, 4, 0], 22)]);
            assert_eq!(behind(&read).map(|block| block.to_string()), Some("10.199.4.0/22".into()));
        }
    }

    #[test]
    fn a_block_that_is_routed_is_passed_over_and_its_pool_too() {
        let first = |routes: &[Route]| claim(routes).map(|claim| claim.block.first & 0xffff_0000);
        // 10.199.0.0/21 is two blocks.
        let taken = [route("eth0", [0; 4], 0), route("eth1", [10, 199, 0, 0], 21)];
        let claimed = claim(&taken).unwrap().block;
        assert!(claimed.first >= u32::from_be_bytes([10, 199, 8, 0]), "{claimed}");
        let second = Ipv4Addr::new(172, 29, 0, 0).to_bits();
        assert_eq!(first(&[route("vpn", [10, 0, 0, 0], 8)]), Ok(second));
        let both = [route("vpn", [10, 0, 0, 0], 8), route("vpn", [172, 16, 0, 0], 12)];
        let error = claim(&both).unwrap_err();
        assert!(error.contains("as by the route 172.16.0.0/12 dev vpn"), "{error}");
    }

    #[test]
    fn two_paths_at_once_have_blocks_of_their_own() {
        let one = claim(&[]).unwrap();
        let other = claim(&[]).unwrap();
        assert!(!one.block.overlaps(&other.block));
    }

    #[test]
    fn a_path_behind_a_path_is_a_quarter_of_its_block_and_five_are_the_most() {
        // A pool of the test's own numbers, so that no other test claims them at the same time.
        let mut own = route(WAY_OUT, [10, 199, 252, 0], 22);
        for bits in [24, 26, 28, 30] {
            let claim = claim(&[route(WAY_OUT, [0; 4], 0), own.clone()]).unwrap();
            assert_eq!(claim.block.bits, bits);
            assert!(claim.block.overlaps(&own.to));
            assert!(claim.block.first > own.to.far().to_bits());
            own.to = claim.block;
        }
        assert!(claim(&[own]).unwrap_err().contains("five deep"));
    }

    #[test]
    fn the_ends_of_a_block_are_its_first_two_addresses() {
        let block = Block::new(Ipv4Addr::new(10, 199, 4, 0), 22);
        assert_eq!(block.near(), Ipv4Addr::new(10, 199, 4, 1));
        assert_eq!(block.far(), Ipv4Addr::new(10, 199, 4, 2));
        assert_eq!(block.to_string(), "10.199.4.0/22");
    }
}
