//! An alarm of the service itself: while it is set, connections that publish are not read.
//!
//! `delay = share of the time in which it is set x time of an exchange`
//! Source: `rabbit_alarm` of RabbitMQ; its guides "Memory and Disk Alarms" and "Blocked Connections".

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let run = &facts.run;
    // Sampled once a second: for a short window the whole run's samples are taken.
    let node = run.window_or_whole(Subject::Node, |of| of.last(vm::ALARMS).is_ok());
    let none = "no BEAM node with known alarms (RabbitMQ) was sampled";
    let share = node.share(vm::ALARMS, |count| count > 0).ok().or_not_here(none)?;
    silent_if(share == 0.0, "no alarm is set")?;
    let named = run.fact(Subject::Node, "alarms").unwrap_or("?");
    // Where nothing is read at all, an exchange has no time.
    let each = |count: f64| if facts.attained > 0.0 { count / facts.attained } else { 0.0 };
    let waits = Part::Delay { at: At::Service, each: each(share * facts.under_way()) };
    Ok(Claim::cause(vec![Part::capacity(Resource::Slots, 1.0, each(1.0)), waits])
        // One that comes and goes within seconds (a burst, a collection) delays nothing for long.
        .sized_if(share >= HALFWAY)
        .sum(format!("{named}: publishing connections are not read while it is set"))
        .seen(format!("an alarm was set in {} of samples, the last: {named}", in_percent(share)))
        .also(waiting(run))
        .lifted_by([remedy(named)]))
}

/// Connections with unread bytes throughout, of which nothing was read.
fn waiting(run: &Run) -> Option<String> {
    let unread = |flow: &Of| {
        let queue = flow.all(tcp_info::RQUEUE).ok()?;
        let lay = queue.iter().all(|(_, bytes)| bytes.0 > 0);
        let read = flow.delta(port::RECV_OCT).map_or(0, |(bytes, _)| bytes.0);
        (lay && read == 0).then(|| queue.last().map_or(0, |(_, bytes)| bytes.0))
    };
    let found: Vec<u64> = run.flows(Side::Server).iter().filter_map(unread).collect();
    let unread = Bytes(found.iter().sum());
    match found.len() {
        0 => None,
        1 => Some(format!("1 connection has {unread} unread")),
        many => Some(format!("{many} connections have {unread} unread")),
    }
}

fn remedy(named: &str) -> Remedy {
    let (does, by_hand) = match () {
        () if named.contains("memory") => (
            "lets the broker use more memory before it stops reading",
            "first find what uses the memory (rabbitmq-diagnostics memory_breakdown): queues without consumers need \
             consumers, x-max-length or lazy mode; then rabbitmqctl set_vm_memory_high_watermark 0.6 (and \
             vm_memory_high_watermark.relative = 0.6 in rabbitmq.conf, for the next start)",
        ),
        () if named.contains("disk") => (
            "lets the broker go on with less free disk",
            // Source: 50 MB is its default, rabbitmq.com, "Free Disk Space Alarms".
            "free the disk that holds its database; or, if what is left is enough, rabbitmqctl \
             set_disk_free_limit 50MB (disk_free_limit.absolute in rabbitmq.conf), or any value below the free space \
             that rabbitmq-diagnostics status shows",
        ),
        () if named.contains("descriptors") => (
            "lets the broker open more files and connections",
            "LimitNOFILE=65536 in the service's unit (systemctl edit rabbitmq-server), or ulimit -n 65536",
        ),
        () => (
            "lets the service continue to read",
            "rabbitmq-diagnostics alarms shows what is exhausted: raise its limit, or use less of it",
        ),
    };
    Remedy::human(does, by_hand)
}
