//! See [`crate::netns`].

pub(crate) use crate::netns::{Ip, Netns};
