//! Where a run stops warming up: the change in mean that best explains its course.
//!
//! For each split the residual sum of squares of two means is compared with that of one; the best split counts if it
//! lowers the Bayesian information criterion, shifts the mean by 10 % and lies in the first half. Then the rest is
//! examined again.
//!
//! Blind spot: a drift without a step is cut at one point or not at all.
//! Source: Bayesian information criterion for one change in mean (Yao, 1988).

/// A change of the mean.
pub(super) struct Cut {
    /// The first value after it.
    pub index: usize,
    /// Mean of what was cut off.
    pub before: f64,
    /// Mean of what remains.
    pub after: f64,
}

/// The end of the warm-up; none without one.
pub(super) fn warm_up(values: &[f64]) -> Option<Cut> {
    let mut start = 0;
    // The rest must stay at least half of the whole, so a run that never settles is not cut to its
    // last moments.
    while let Some(split) = change(&values[start..]) {
        let index = start + split;
        if index > values.len() / 2 {
            break;
        }
        start = index;
    }
    (start > 0).then(|| Cut {
        index: start,
        before: mean(&values[..start]),
        after: mean(&values[start..]),
    })
}

/// The best split of `values` into two means, if two explain them better than one.
pub(super) fn change(values: &[f64]) -> Option<usize> {
    let count = values.len();
    // Chosen: below eight values a step can't be distinguished from noise.
    if count < 8 {
        return None;
    }
    let whole = residual(values);
    let (split, parts) = (1..count - 2)
        .map(|split| (split, residual(&values[..split]) + residual(&values[split..])))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let n = count as f64;
    let floor = 1e-12 * (1.0 + whole);
    let gain = n * ((whole + floor) / (parts + floor)).ln();
    // Two more parameters (the place and the second mean); 3 ln n is the usual stricter penalty.
    let (before, after) = (mean(&values[..split]), mean(&values[split..]));
    let shifted = (after - before).abs() > 0.1 * after.abs().max(before.abs());
    (gain > 3.0 * n.ln() && shifted).then_some(split)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn residual(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_slow_slices_in_front_are_warm_up() {
        let mut values = vec![100.0, 400.0, 700.0];
        values.extend((0..40).map(|index| 1000.0 + f64::from(index % 5)));
        assert_eq!(warm_up(&values).map(|cut| cut.index), Some(3));
    }

    #[test]
    fn a_level_course_has_none() {
        let values: Vec<f64> = (0..50).map(|index| 1000.0 + f64::from(index * 7 % 11)).collect();
        assert!(warm_up(&values).is_none());
    }

    #[test]
    fn counts_that_alternate_have_none() {
        let values: Vec<f64> = (0..50).map(|index| f64::from(20 + index % 2 * 10)).collect();
        assert!(warm_up(&values).is_none());
    }

    #[test]
    fn a_step_in_the_second_half_is_a_change_but_no_warm_up() {
        let mut values = vec![1000.0; 30];
        values.extend([500.0; 10]);
        assert_eq!(change(&values), Some(30));
        assert!(warm_up(&values).is_none());
    }
}
