//! `what-if`: an evidence file's run, changed and solved again.

use linerate_evidence::{read, summarise};
use linerate_predict::{Change, Changed, forecast};
use linerate_report::{Asked, Between, Document, WasRun, WhatIfDocument};
use linerate_roofline::{Run, judge, measured};

use crate::args::WhatIfArgs;
use crate::commands::predict::crossing;
use crate::failure::Failure;
use crate::output::Output;

/// See the module.
pub fn what_if(args: &WhatIfArgs) -> Result<u8, Failure> {
    let output = Output::new(&args.output)?.without_evidence("what-if makes none")?;
    let path = args.file.display();
    let wrong = |wrong: &str| Failure::plan(format!("{path}: {wrong}"));
    for (flag, given) in [
        ("--connections", args.connections.map(u64::from)),
        ("--cpus", args.cpus.map(u64::from)),
        ("--hosts", args.hosts.map(u64::from)),
    ] {
        if given == Some(0) {
            return Err(Failure::plan(format!("{flag}: 0 do nothing: write 1 or more")));
        }
    }
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let (header, evidence, _) = read(&text).map_err(|error| wrong(&error.to_string()))?;
    let load = summarise(&evidence, &header.plan);
    let run = Run { header: &header, evidence: &evidence, load: &load };
    if run.is_watched() {
        return Err(wrong(
            "it is of a watched service, whose concurrency is unknown; what-if takes what `run` writes",
        ));
    }
    if header.plan.is_stream() {
        return Err(wrong(
            "what-if has no model of streams, which have no requests: run them again with the change",
        ));
    }
    if !run.demand_is_unmet() {
        return Err(wrong(
            "an open loop that met its rate does not show its capacity: record a run without --rate",
        ));
    }
    if let Some(think) = header.plan.load.think {
        return Err(wrong(&format!(
            "its clients think (load.think = \"{think}\"), which what-if has no model of: record a run without it"
        )));
    }
    let verdict = judge(&run).verdict;
    let measured = measured(&run, verdict.by())
        .map_err(|missing| wrong(&format!("nothing was answered in it: {missing}")))?;
    let crossing = crossing(measured.crossing.clone(), &args.path)?;
    let change = Change { cpus: args.cpus, hosts: args.hosts };
    let changed = Changed::new(measured.clone(), change);
    let connections = args.connections.unwrap_or(measured.connections);
    let expect = forecast(&changed, &crossing, connections);
    let local = header.target.local;
    let document = WhatIfDocument {
        schema: WhatIfDocument::SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        from: path.to_string(),
        ratio: expect.throughput_per_s.mid.0 / measured.throughput.0,
        blind_spots: WhatIfDocument::blind_spots(&verdict, local),
        run: WasRun::new(&header, &measured, verdict, load.latency.mean(), &changed),
        change: Asked { connections: args.connections, cpus: args.cpus, hosts: args.hosts },
        crossing: Between::of(&crossing),
        expect,
    };
    output.write(&Document::WhatIf(Box::new(document)))?;
    Ok(0)
}
