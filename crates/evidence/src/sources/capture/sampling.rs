//! Which connections of a busy service the capture keeps.

/// Which connections are kept: one in n, by the client's port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sampling {
    mask: u16,
    salt: u16,
}

impl Sampling {
    /// Every connection.
    pub const fn all() -> Self {
        Self { mask: 0, salt: 0 }
    }

    /// Every connection for now; `salt` decides which are kept later.
    pub const fn salted(salt: u16) -> Self {
        Self { mask: 0, salt }
    }

    /// Half of these, or all of them when only one in 4,096 is left.
    ///
    /// By the bits above the lowest: kernels give client ports of one parity to `connect`.
    #[must_use]
    pub fn halved(self) -> Self {
        Self { mask: (self.mask << 1 | 2) & 0x1ffe, ..self }
    }

    /// How many connections one stands for.
    pub fn one_in(self) -> u32 {
        1 << self.mask.count_ones()
    }

    /// The bits of the client's port that decide, and what they are compared to.
    pub fn mask_and_salt(self) -> (u16, u16) {
        (self.mask, self.salt)
    }

    /// Whether connections from this port are kept.
    pub fn keeps(self, client_port: u16) -> bool {
        (client_port ^ self.salt) & self.mask == 0
    }
}
