//! Limits of a BEAM node's sockets and of the processes that own them.

pub(super) mod blocked_writers;
pub(super) mod list_mode;
pub(super) mod mailbox_backlog;
pub(super) mod mailbox_scan;
pub(super) mod oversize_buffer;
pub(super) mod packet_buffer;
pub(super) mod packet_parse;
pub(super) mod small_buffer;
