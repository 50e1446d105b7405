//! An alarm of the service itself: while it is set, connections that publish are not read.
//! `delay = share of the time in which it is set x time of an exchange`
//! Source: `rabbit_alarm` of RabbitMQ; its guides "Memory and Disk Alarms" and "Blocked Connections".

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let run = &facts.run;
    // Sampled once a second: for a short window the whole run's samples are taken.
    let node = run.window_or_whole(Subject::Node, |of| of.last(vm::ALARMS).is_ok());
    let share = node.share(vm::ALARMS, |count| count > 0).ok();
    let share = share.or_not_here("no BEAM node with known alarms (RabbitMQ) was sampled")?;
    silent_if(share == 0.0, "no alarm is set")?;
    let named = run.fact(Subject::Node, "alarms").unwrap_or("?");
    let unread = mean_over(&run.flows(Side::Server), |flow| flow.mean(tcp_info::RQUEUE));
    // Where nothing is read at all, an exchange has no time.
    let each = |count: f64| if facts.attained > 0.0 { count / facts.attained } else { 0.0 };
    let waits = Part::Delay { at: At::Service, each: each(share * facts.under_way()) };
    Ok(Claim::cause(vec![Part::capacity(Resource::Slots, 1.0, each(1.0)), waits])
        // One that comes and goes within seconds (a burst, a collection) delays nothing for long.
        .sized_if(share >= HALFWAY)
        .sum(format!("{named}: publishing connections are not read while it is set"))
        .seen(format!("an alarm was set in {} of samples, the last: {named}", in_percent(share)))
        .also(unread.ok().map(|of| format!("its connections have {} unread on average", bytes(of))))
        .lifted_by([remedy(named)]))
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
