//! CPU time in control groups: the quota, and how long it stopped a process.
//!
//! No source by itself: [`super::process`] reads the target's with it, [`super::engine`] our own.
//!
//! Source: `cpu.stat` and `cpu.max` (`Documentation/admin-guide/cgroup-v2.rst`); in version 1
//! `cpu.cfs_quota_us` and `cpu.cfs_period_us` (`Documentation/scheduler/sched-bwc.rst`).

use std::time::Duration;

use super::UnreadableSource;

/// One control group.
#[derive(Clone, Debug, Default)]
pub struct GroupReading {
    /// `cpu.stat`.
    pub cpu_stat: Vec<u8>,
    /// `cpu.max`, or `cpu.cfs_quota_us` and `cpu.cfs_period_us` with a space between.
    pub max: Option<Vec<u8>>,
}

/// The sum over the groups of one process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Bandwidth {
    pub(super) throttled: Option<Throttled>,
    /// CPU time that the tightest quota grants each second.
    pub(super) quota: Option<Duration>,
}

/// How long a quota stopped a group; ordered by time.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Throttled {
    pub(super) time: Duration,
    pub(super) throttled: u64,
    pub(super) periods: u64,
}

/// Of a group and those around it. A quota applies at one group of the path, and only that one
/// counts: the worst is taken.
pub(super) fn bandwidth(groups: &[GroupReading]) -> Result<Bandwidth, UnreadableSource> {
    let mut found = Bandwidth::default();
    for group in groups {
        found.throttled = found.throttled.max(throttled(&group.cpu_stat)?);
        if let Some(quota) = group.max.as_deref().map(quota).transpose()?.flatten() {
            found.quota = Some(found.quota.map_or(quota, |tightest| tightest.min(quota)));
        }
    }
    Ok(found)
}

/// None where the group has no bandwidth control.
fn throttled(cpu_stat: &[u8]) -> Result<Option<Throttled>, UnreadableSource> {
    let text = String::from_utf8_lossy(cpu_stat);
    let (mut periods, mut throttled, mut time) = (None, None, None);
    for (index, line) in text.lines().enumerate() {
        let Some((key, value)) = line.split_once(' ') else { continue };
        let number = || {
            let number = value.trim().parse::<u64>();
            number.map_err(|_| UnreadableSource::line(index, "a whole number", line))
        };
        match key {
            "nr_periods" => periods = Some(number()?),
            "nr_throttled" => throttled = Some(number()?),
            "throttled_time" => time = Some(Duration::from_nanos(number()?)),
            "throttled_usec" => {
                time = Some(Duration::from_nanos(number()?.saturating_mul(1000)));
            }
            _ => {}
        }
    }
    let all = periods.zip(throttled).zip(time);
    Ok(all.map(|((periods, throttled), time)| Throttled { time, throttled, periods }))
}

/// CPU time a second; none where there is no quota.
fn quota(max: &[u8]) -> Result<Option<Duration>, UnreadableSource> {
    let text = String::from_utf8_lossy(max);
    let expected = || UnreadableSource::line(0, "a quota and a period", text.trim_end());
    let mut words = text.split_ascii_whitespace();
    let (Some(quota), Some(period)) = (words.next(), words.next()) else { return Err(expected()) };
    if quota == "max" || quota == "-1" {
        return Ok(None);
    }
    let quota: u64 = quota.parse().map_err(|_| expected())?;
    let period: u64 = period.parse().map_err(|_| expected())?;
    let each_second = u128::from(quota) * 1_000_000_000 / u128::from(period.max(1));
    Ok(Some(Duration::from_nanos(u64::try_from(each_second).unwrap_or(u64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worst_throttling_and_the_tightest_quota_stand_for_all_groups() {
        let group = |cpu_stat: &str, max: &str| GroupReading {
            cpu_stat: cpu_stat.into(),
            max: Some(max.into()),
        };
        let groups = [
            group("nr_periods 100\nnr_throttled 40\nthrottled_usec 2000\n", "50000 100000"),
            group("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n", "-1 100000"),
            group("usage_usec 5\n", "max 100000"),
        ];
        let found = bandwidth(&groups).unwrap();
        let time = Duration::from_millis(2);
        assert_eq!(found.throttled, Some(Throttled { time, throttled: 40, periods: 100 }));
        assert_eq!(found.quota, Some(Duration::from_millis(500)));
        assert_eq!(bandwidth(&groups[2..]).unwrap(), Bandwidth::default());
        assert!(quota(b"5").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            group in "(nr_periods|nr_throttled|throttled_(time|usec)) [0-9]{0,22}\n",
            max in "(max|-1|[0-9]{0,22}) [0-9]{0,22}",
        ) {
            let _ = throttled(group.as_bytes());
            let _ = quota(max.as_bytes());
        }
    }
}
