//! A worker that has users' connections: does what it is told of each, and says what became of it.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use linerate_engine::{Happened, UserConnections, UserSockets, UsersSetup};
use linerate_model::{Bytes, Timestamp};
use linerate_session::{Act, Token, UserId};

use super::format::{Became, Do, Told, UsersOrder};
use crate::error::RunError;
use crate::users::Speaks;

// Chosen: the longest reason that a report shows in full, some lines of it.
const LONGEST_WHY: usize = 1_000;

/// The sockets, before anybody connects.
pub fn sockets(order: &UsersOrder) -> Result<UserSockets, RunError> {
    let speaks = order.speaks.as_ref();
    let in_words = |bad| RunError::Engine(io::Error::other(bad));
    let setup = UsersSetup {
        protocol: speaks.map(Speaks::protocol).transpose().map_err(in_words)?,
        tls: speaks.map(Speaks::tls).transpose()?.flatten(),
        servers: order.servers.clone(),
        netns: order.netns.clone(),
        options: order.options.clone(),
        timeout: Duration::from_nanos(order.timeout_ns),
        process: order.part,
    };
    UserSockets::new(setup).map_err(RunError::Engine)
}

/// Does all that it was told by now; whether more is to come. Who asked for the time meanwhile is in `asked`.
pub fn obey(
    sockets: &mut UserSockets,
    told: &Receiver<Result<Told, String>>,
    asked: &mut Vec<Timestamp>,
) -> bool {
    loop {
        match told.try_recv() {
            Ok(Ok(Told::Do(all))) => all.into_iter().for_each(|to_do| obey_one(sockets, to_do)),
            Ok(Ok(Told::Ping(at))) => asked.push(at),
            Ok(Ok(Told::Stop(_)) | Err(_)) | Err(TryRecvError::Disconnected) => return false,
            Ok(Ok(_)) => {}
            Err(TryRecvError::Empty) => return true,
        }
    }
}

fn obey_one(sockets: &mut UserSockets, to_do: Do) {
    match to_do {
        Do::Connect(user) => sockets.connect(user),
        Do::Message(user, to, size, token) => {
            let act = Act::Message { to: UserId(to), size: Bytes(size) };
            sockets.act(user, act, Token(token));
        }
        Do::Close(user) => sockets.close(user),
    }
}

/// As it is said.
pub fn became(happened: Happened) -> Option<Became> {
    Some(match happened {
        Happened::Connected { user, attempt, begun, at } => {
            Became::Connected(user, attempt, begun, at)
        }
        Happened::Online { user, attempt, at } => Became::Online(user, attempt, at),
        Happened::Failed { user, attempt, why, at } => {
            Became::Failed(user, attempt, why.chars().take(LONGEST_WHY).collect(), at)
        }
        Happened::Answered { token, at } => Became::Answered(token.0, at),
        Happened::Delivered { token, at } => Became::Delivered(token.0, at),
        // Of processes, and this is one.
        Happened::Lost(_) => return None,
    })
}
