//! What a packet meets, in order. To add one: a file here, a line in [`STAGES`], its place in `pipe.rs`.

mod delay;
mod duplicate;
mod limit;
mod loss;
mod rate;
mod size;

pub(crate) use delay::Transit;
pub(crate) use duplicate::Duplicate;
pub(crate) use limit::Limit;
pub(crate) use loss::Loss;
pub(crate) use rate::Link;
pub(crate) use size::Size;

/// Part of a path.
#[derive(Debug)]
pub struct Stage {
    /// One word.
    pub name: &'static str,
    /// What it does to a packet, in a sentence.
    pub does: &'static str,
    /// Keys of a plan's `path` that it obeys.
    pub keys: &'static [&'static str],
}

/// Every stage, in the order in which a packet meets them.
pub static STAGES: &[&Stage] =
    &[&size::STAGE, &loss::STAGE, &duplicate::STAGE, &limit::STAGE, &rate::STAGE, &delay::STAGE];

#[cfg(test)]
mod tests {
    use linerate_model::{Aqm, BitRate, Bytes, Path, Plan, Queue, Share};
    use std::time::Duration;

    use super::*;

    /// Keys of a path that say nothing of what a packet meets.
    const OTHERS: &[&str] = &["out", "back", "backend", "offload", "seed", "sysctls", "tolerance"];

    #[test]
    fn stages_have_names_of_their_own_and_a_sentence() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert!(STAGES[..index].iter().all(|other| other.name != stage.name));
            assert!(stage.does.ends_with('.') && !stage.keys.is_empty(), "{}", stage.name);
        }
    }

    #[test]
    fn every_key_of_a_path_is_obeyed_by_one_stage() {
        // No `..`: a new key of a path does not compile here until it has its place.
        let path = Path {
            rtt: Duration::from_millis(10),
            jitter: Duration::from_millis(1),
            keep_order: false,
            rate: Some(BitRate(1e6)),
            trace: Some("trace".into()),
            queue: Some(Queue::Packets(10)),
            aqm: Aqm::Codel,
            limit: Some(10),
            loss: Share(0.01),
            loss_burst: 2.0,
            duplicate: Share(0.01),
            reorder: Share(0.01),
            largest: Some(Bytes(1400)),
            out: None,
            back: None,
            backend: Default::default(),
            offload: true,
            seed: 1,
            tolerance: Some(Duration::from_millis(1)),
            sysctls: Default::default(),
        };
        let text = "[target]\nbeam = 'echo'\n[path]\n";
        let plan = Plan { path: Some(path), ..Plan::from_toml(text).unwrap() }.to_toml();
        let (_, path) = plan.split_once("[path]").unwrap();
        let keys: Vec<&str> = path
            .lines()
            .map(str::trim)
            .skip(1)
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| Some(line.split_once('=')?.0.trim()))
            .collect();
        assert!(keys.contains(&"rtt") && keys.contains(&"largest"), "{keys:?}");
        for key in keys.iter().filter(|key| !OTHERS.contains(key)) {
            let stages = STAGES.iter().filter(|stage| stage.keys.contains(key)).count();
            assert_eq!(stages, 1, "stages that obey `{key}`");
        }
        for key in STAGES.iter().flat_map(|stage| stage.keys) {
            assert!(keys.contains(key), "`{key}` is no key of a path");
        }
    }
}
