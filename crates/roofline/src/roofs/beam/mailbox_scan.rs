//! A long mailbox, all searched by a `receive` that does not match the first message.
//! `each = searches x messages that stay / throughput`, at the cost of examining a message; where they come and go,
//! `reductions = messages taken x messages there`
//! Source: `prim_inet:send/3`, erlang/otp pull request 6455; efficiency guide, "Processes"; `loop_rec_end` of
//! erts/emulator/beam, which counts a reduction for each message that is examined.

use crate::prelude::*;

// Measured: 5.5 to 7 ns a message (OTP 25, mailboxes of 1,000 to 50,000). Unit: seconds.
const MESSAGE: f64 = 5.5e-9;

// Measured: from here on a mailbox leaves the caches, and a message takes 14 ns of 100,000, 21 of 200,000, 37 of 500,000
// and 68 of a million: at least as the power below has it (9.6, 17, 35 and 60). Unit: messages.
const IN_CACHE: f64 = 50_000.0;
const BEYOND: f64 = 0.8;

/// Searching all of these once. Unit: seconds.
fn searched(messages: f64) -> f64 {
    messages * MESSAGE * (messages / IN_CACHE).max(1.0).powf(BEYOND)
}

#[derive(Clone, Copy, Eq, PartialEq)]
pub(in crate::roofs) enum MailboxScan {
    /// `gen_tcp:send/2`, which before OTP 26 waits so for the driver's reply.
    Send,
    /// The receive of data itself, or another receive of the owner, or of a process that it tells.
    Receive,
}

impl MailboxScan {
    pub fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        if let Some(claim) = self.by_memory(facts) {
            return Ok(claim);
        }
        let release = facts.run.fact(Subject::Node, "otp").and_then(|otp| otp.parse::<u32>().ok());
        let sends_search = release.is_none_or(|release| release < 26);
        // The least cost of searching, in CPUs' worth of time; and the most messages that stay.
        let (mut send, mut receive, mut mailbox) = (0.0, 0.0, 0.0_f64);
        let mut search = |there: f64, receives: f64, sends: f64| {
            if there >= FEW && receives + sends > 0.0 {
                receive += receives * searched(there);
                send += sends * searched(there);
                mailbox = mailbox.max(there);
            }
        };
        for each in facts.connections()? {
            search(each.standing()?, each.reads, 0.0);
            if sends_search {
                search(each.of.mean(owner::MAILBOX)?, 0.0, each.writes);
            }
        }
        // Whether all that is there is work, and nothing stays that nobody takes.
        let (callers, mut are_taken) = (u64::from(facts.run.connections()), false);
        let came = [facts.attained, facts.connections()?.iter().map(|each| each.reads).sum()];
        for asked in facts.processes.iter().filter(|of| !of.is_owner && of.running >= HALFWAY) {
            let standing = asked.standing(callers) as f64;
            search(standing, facts.attained.min(asked.running / searched(standing)), 0.0);
            if standing == 0.0 && asked.looks_at_all(callers, came) {
                let there = asked.mailbox as f64;
                are_taken = self == MailboxScan::Receive;
                search(there, asked.reductions / there, 0.0);
            }
        }
        let both = send + receive;
        let mine = if self == MailboxScan::Send { send } else { receive };
        let none = "no owner of a connection, nor a process that it calls, searches messages";
        silent_if(mine == 0.0, none)?;
        let work = Work::of(facts)?;
        let each = mine.min(work.emulator * mine / both.max(1e-12)) / facts.attained;
        let (one, took, code) = (duration(searched(mailbox)), facts.took(each), work.emulator);
        Ok(Claim::work(Resource::Process, each)
            // At another machine's price it is most of the code that runs; the node's own account bounds it.
            .sized_if(both >= HALFWAY * work.emulator)
            .sum(format!("{mailbox:.0} messages, {one} each time they are searched: {took}"))
            .seen(format!(
                "{mailbox:.0} messages are in a mailbox; sends search for {send:.2} and receives for {receive:.2} of the \
                 {code:.2} CPUs that run code"
            ))
            .at_least(Least::OfTarget)
            .lifted_by(self.remedies(are_taken)))
    }

    /// Seen from outside, by its memory: who runs has messages that it never takes, or many while it sends, and searches them: once
    /// an exchange, or at each write.
    fn by_memory(self, facts: &Facts) -> Option<Claim> {
        let (callers, target) = (facts.callers(), facts.target_cpu().ok()?);
        let code = (1.0 - target.kernel) * facts.target_work().ok()?;
        let sends = |of: &Process| of.stack.contains("prim_inet:send");
        let there = |of: &Process| match of.standing(callers) {
            0 if sends(of) || facts.is_passed_over(of) => of.mailbox as f64,
            standing => standing as f64,
        };
        let is_laden = |of: &&Process| of.running > 0.0 && there(of) >= FEW;
        let mut laden: Vec<_> = facts.seen.iter().filter(is_laden).collect();
        let is_it = laden.iter().any(|of| facts.is_passed_over(of));
        laden.retain(|of| !is_it || facts.is_passed_over(of));
        let running = laden.iter().map(|of| of.running).sum::<f64>();
        let are_most = is_it || running >= HALFWAY * facts.by_memory(erlang::RUNNING)?;
        let is_send = 2 * laden.iter().filter(|of| sends(of)).count() >= laden.len();
        let who = laden.iter().max_by(|a, b| there(a).total_cmp(&there(b)))?;
        let writes = facts.run.of(Subject::Target).rate(process::WRITE_CALLS).unwrap_or(0.0);
        let times = if is_send { facts.per_exchange(writes).max(1.0) } else { 1.0 };
        let (mailbox, count) = (there(who), laden.len());
        let each = (times * searched(mailbox)).min(code);
        let (one, took) = (duration(searched(mailbox)), facts.took(each));
        let resource = if is_it { Resource::Process } else { Resource::TargetCpu };
        let claim = Claim::work(resource, each)
            .sized_if(each >= HOLDS * code)
            .sum(format!("{mailbox:.0} messages, {one} each time they are searched: {took}"))
            .seen(format!(
                "{count} of the processes that run have messages which they do not take, up to {mailbox:.0} of them; {} was in {}",
                who.words(),
                who.function
            ))
            .at_least(Least::OfTarget)
            .lifted_by(self.remedies(is_send));
        let is_mine = is_send == (self == MailboxScan::Send);
        (is_mine && are_most).then_some(claim)
    }

    fn remedies(self, are_taken: bool) -> impl Iterator<Item = Remedy> {
        let how = "a clause that receives (and logs) unknown messages; find their sender: \
                   erlang:process_info(Pid, messages), on a node with memory to spare";
        let empty = Remedy::by_knob(("mailbox_junk", "0"), "leaves nothing to search", how);
        let (does, how) = match self {
            MailboxScan::Send => (
                "lets gen_tcp:send wait for its reply with a new reference",
                "OTP 26 or later; before that a separate writer process with a short mailbox, or \
                 erlang:port_command/2 and one receive for all the replies",
            ),
            MailboxScan::Receive => (
                "starts the search after the reference was made",
                "gen_server:call, or make a reference, send it along and match on it in the receive; and a separate \
                 process for work that other processes send to",
            ),
        };
        (!are_taken).then_some(empty).into_iter().chain([Remedy::human(does, how)])
    }
}
