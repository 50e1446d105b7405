//! Nonlinear least squares: Levenberg and Marquardt, with differences for derivatives.
//!
//! Small problems only: a handful of parameters, some dozen rows.
//! Source: Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", 1963.

// Chosen: converges in ten or so; a fit that has not by then will not.
const STEPS: usize = 200;

/// The parameters that minimise the sum of squared residuals, from a guess. `residuals` may bound its parameters
/// itself. None where no step improves it (residuals that are no numbers).
pub(crate) fn fit<const N: usize>(
    guess: [f64; N],
    residuals: impl Fn(&[f64; N]) -> Vec<f64>,
) -> Option<[f64; N]> {
    let mut at = guess;
    let mut here = residuals(&at);
    let mut cost = sum(&here);
    if !cost.is_finite() {
        return None;
    }
    let mut damping = 1e-3;
    for _ in 0..STEPS {
        let mut jacobian = Vec::with_capacity(N);
        for index in 0..N {
            let mut beside = at;
            let step = 1e-6 * at[index].abs().max(1e-6);
            beside[index] += step;
            let there = residuals(&beside);
            jacobian.push(
                there
                    .iter()
                    .zip(&here)
                    .map(|(there, here)| (there - here) / step)
                    .collect::<Vec<_>>(),
            );
        }
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut moved = false;
        // More and more along the steepest descent, until it descends.
        for _ in 0..30 {
            let mut normal = [[0.0; N]; N];
            let mut side = [0.0; N];
            for row in 0..N {
                for column in 0..N {
                    normal[row][column] = dot(&jacobian[row], &jacobian[column]);
                }
                normal[row][row] += damping * normal[row][row].max(1e-300);
                side[row] = -dot(&jacobian[row], &here);
            }
            let Some(step) = solve(normal, side) else {
                damping *= 10.0;
                continue;
            };
            let mut next = at;
            next.iter_mut().zip(step).for_each(|(at, step)| *at += step);
            let there = residuals(&next);
            let less = sum(&there);
            if less.is_finite() && less <= cost {
                let gain = cost - less;
                (at, here) = (next, there);
                damping = (damping / 10.0).max(1e-12);
                moved = gain > 1e-14 * cost.max(1e-300);
                cost = less;
                break;
            }
            damping *= 10.0;
        }
        if !moved {
            break;
        }
    }
    Some(at)
}

fn sum(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}

/// Gaussian elimination with partial pivoting; none without a solution.
fn solve<const N: usize>(mut matrix: [[f64; N]; N], mut side: [f64; N]) -> Option<[f64; N]> {
    for column in 0..N {
        let pivot = (column..N)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if matrix[pivot][column].abs() <= 1e-300 {
            return None;
        }
        matrix.swap(column, pivot);
        side.swap(column, pivot);
        let pivots = matrix[column];
        for row in column + 1..N {
            let factor = matrix[row][column] / matrix[column][column];
            for (cell, above) in matrix[row].iter_mut().zip(pivots).skip(column) {
                *cell -= factor * above;
            }
            side[row] -= factor * side[column];
        }
    }
    let mut found = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|index| matrix[row][index] * found[index]).sum();
        found[row] = (side[row] - known) / matrix[row][row];
    }
    found.iter().all(|value| value.is_finite()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nists_misra1a_is_fitted_to_its_certified_values() {
        // Source: NIST StRD, Misra1a: y = b1 (1 - exp(-b2 x)); b1 = 238.94212918, b2 = 5.5015643181E-04.
        let rows = [
            (77.6, 10.07),
            (114.9, 14.73),
            (141.1, 17.94),
            (190.8, 23.93),
            (239.9, 29.61),
            (289.0, 35.18),
            (332.8, 40.02),
            (378.4, 44.82),
            (434.8, 50.76),
            (477.3, 55.05),
            (536.8, 61.01),
            (593.1, 66.40),
            (689.1, 75.47),
            (760.0, 81.78),
        ];
        let [b1, b2] = fit([500.0, 0.0001], |[b1, b2]| {
            rows.iter().map(|(x, y)| b1 * (1.0 - (-b2 * x).exp()) - y).collect()
        })
        .unwrap();
        assert!((b1 / 238.942_129_18 - 1.0).abs() < 1e-5, "{b1}");
        assert!((b2 / 5.501_564_318_1e-4 - 1.0).abs() < 1e-5, "{b2}");
    }
}
