//! What a user costs, by slope: least squares of a memory over users that say nothing and users that do.
//!
//! `memory = base + idle x (its cost) + active x (its cost)`; a quotient would charge each user a part of the base.
//! Source: Draper and Smith, "Applied Regression Analysis", 1998, chapter 5: estimates, and their intervals by Student's
//! distribution with as many degrees of freedom as there are points more than parameters.

use serde::Serialize;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The best guess. Unit: bytes.
    pub bytes: f64,
    /// Its interval, half of it: `bytes` plus or minus this.
    pub within: f64,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slopes {
    /// Without any user.
    pub base: Estimate,
    /// A user that says nothing; none where there was none.
    pub idle: Option<Estimate>,
    /// A user that does; none where there was none.
    pub active: Option<Estimate>,
}

/// Of points `[idle, active, memory]`; none where they are too few, or all alike.
pub fn slopes(points: &[[f64; 3]]) -> Option<Slopes> {
    let has = |column: usize| points.iter().any(|point| point[column] > 0.0);
    let columns: Vec<usize> = [0, 1].into_iter().filter(|column| has(*column)).collect();
    let row = |point: &[f64; 3]| -> Vec<f64> {
        std::iter::once(1.0).chain(columns.iter().map(|column| point[*column])).collect()
    };
    let width = columns.len() + 1;
    if columns.is_empty() || points.len() <= width {
        return None;
    }
    let mut normal = vec![vec![0.0; width]; width];
    let mut side = vec![0.0; width];
    for point in points {
        let x = row(point);
        for ((line, sum), a) in normal.iter_mut().zip(&mut side).zip(&x) {
            line.iter_mut().zip(&x).for_each(|(cell, b)| *cell += a * b);
            *sum += a * point[2];
        }
    }
    let inverse = inverse(normal)?;
    let found: Vec<f64> =
        inverse.iter().map(|line| line.iter().zip(&side).map(|(a, b)| a * b).sum()).collect();
    let residual = |point: &[f64; 3]| {
        let fitted: f64 = row(point).iter().zip(&found).map(|(x, b)| x * b).sum();
        (point[2] - fitted).powi(2)
    };
    let free = points.len() - width;
    let variance = points.iter().map(residual).sum::<f64>() / free as f64;
    let estimate = |index: usize| Estimate {
        bytes: found[index],
        within: student(free) * (variance * inverse[index][index]).max(0.0).sqrt(),
    };
    let of = |column: usize| columns.iter().position(|it| *it == column).map(|at| estimate(at + 1));
    Some(Slopes { base: estimate(0), idle: of(0), active: of(1) })
}

/// Student's distribution: half of the width of its middle 95 %.
///
/// Source: tables of the distribution; from 11 on an approximation that is right to 0.5 %.
fn student(free: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    TABLE.get(free - 1).copied().unwrap_or(1.96 + 2.5 / free as f64)
}

/// Gauss and Jordan, the largest pivot of each column first; none where there is none.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    // Columns are of very different sizes (1, and thousands of users): what is zero is judged beside their own.
    let scale: Vec<f64> = (0..size).map(|at| matrix[at][at].sqrt()).collect();
    if scale.iter().any(|scale| *scale <= 0.0) {
        return None;
    }
    for (i, line) in matrix.iter_mut().enumerate() {
        for (j, cell) in line.iter_mut().enumerate() {
            *cell /= scale[i] * scale[j];
        }
    }
    let mut right: Vec<Vec<f64>> =
        (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-9 {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let by = matrix[column][column];
        for cell in matrix[column].iter_mut().chain(right[column].iter_mut()) {
            *cell /= by;
        }
        let (pivots, rights) = (matrix[column].clone(), right[column].clone());
        for line in (0..size).filter(|line| *line != column) {
            let factor = matrix[line][column];
            for (cell, above) in matrix[line].iter_mut().zip(&pivots) {
                *cell -= factor * above;
            }
            for (cell, above) in right[line].iter_mut().zip(&rights) {
                *cell -= factor * above;
            }
        }
    }
    for (i, line) in right.iter_mut().enumerate() {
        for (j, cell) in line.iter_mut().enumerate() {
            *cell /= scale[i] * scale[j];
        }
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_active_users_are_told_apart_and_the_base_is_nobodys() {
        // 30 MB, 5,000 bytes an idle user, 12,000 an active one; read to 1,000 bytes either way.
        let points: Vec<[f64; 3]> = (0..20)
            .map(|step| {
                let (idle, active) =
                    (f64::from(step / 2 + step % 2) * 60.0, f64::from(step / 2) * 240.0);
                let noise = if step % 3 == 0 { 1_000.0 } else { -500.0 };
                [idle, active, 30e6 + 5_000.0 * idle + 12_000.0 * active + noise]
            })
            .collect();
        let found = slopes(&points).unwrap();
        for (estimate, is) in
            [(found.base, 30e6), (found.idle.unwrap(), 5_000.0), (found.active.unwrap(), 12_000.0)]
        {
            assert!((estimate.bytes - is).abs() <= estimate.within, "{estimate:?} {is}");
            assert!(estimate.within < 0.01 * is, "{estimate:?}");
        }
    }

    #[test]
    fn a_class_that_nobody_is_of_costs_nothing_that_is_known() {
        let points: Vec<[f64; 3]> = (0..5)
            .map(|step| [f64::from(step) * 10.0, 0.0, 100.0 + 70.0 * f64::from(step)])
            .collect();
        let found = slopes(&points).unwrap();
        assert!((found.idle.unwrap().bytes - 7.0).abs() < 1e-6);
        assert_eq!(found.active, None);
        assert_eq!(slopes(&points[..2]), None);
        assert_eq!(slopes(&[[5.0, 0.0, 1.0]; 6]), None);
    }
}
