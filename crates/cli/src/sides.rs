//! Two sides of runs that know nothing of each other, and whether they differ by more than runs of one build do.
//!
//! A run is one reading. What its own slices say of its spread does not hold between runs: where a process is
//! placed, what its neighbours do and how its memory lies stay the same for a run and differ in the next.

/// How often one of a comparison's figures is called different between sides of the same build, at most.
// Chosen: one in twenty, in both directions together.
pub const FALSE_ALARMS: f64 = 0.05;

/// A figure of both sides.
pub struct Sides<'a> {
    /// One number a run, all more than 0.
    pub before: &'a [f64],
    /// The same after.
    pub after: &'a [f64],
    /// What runs of one build spread by, for one run a side: standard deviation of the logarithm.
    pub between: f64,
    /// How often the interval may leave 1 out for sides of the same build. Where several figures or looks are taken
    /// together, this one's part of [`FALSE_ALARMS`] (Bonferroni).
    pub level: f64,
}

/// How they differ.
pub struct Difference {
    /// After by before, of geometric means.
    pub ratio: f64,
    /// At the level.
    pub interval: [f64; 2],
}

impl Difference {
    /// The smallest loss that would have been seen, as a share.
    pub fn could_see(&self) -> Option<f64> {
        let share = 1.0 - self.interval[0] / self.ratio;
        (self.interval[1].is_finite()).then_some(share)
    }

    /// Whether it is beyond chance.
    pub fn is_real(&self) -> bool {
        self.interval[0] > 1.0 || self.interval[1] < 1.0
    }
}

impl Sides<'_> {
    /// Student's interval on the logarithms, the spread taken from both sides together.
    ///
    /// With one run a side no spread can be seen, and `between` stands for it. With more it is not used: a quiet
    /// machine's runs decide what a quiet machine can see.
    pub fn difference(&self) -> Difference {
        let [a, b] = [self.before, self.after].map(logs);
        let (count_a, count_b) = (a.len() as f64, b.len() as f64);
        let each = 1.0 / count_a + 1.0 / count_b;
        let degrees = a.len() + b.len() - 2;
        let quantile = 1.0 - self.level / 2.0;
        let half = if degrees == 0 {
            normal(quantile) * self.between * each.sqrt()
        } else {
            let squares = of_squares(&a) + of_squares(&b);
            student(quantile, degrees) * (squares / degrees as f64 * each).sqrt()
        };
        let middle = mean(&b) - mean(&a);
        Difference { ratio: middle.exp(), interval: [(middle - half).exp(), (middle + half).exp()] }
    }
}

fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn of_squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The quantile of Student's t for whole degrees of freedom, `quantile` over a half.
fn student(quantile: f64, degrees: usize) -> f64 {
    bisect(|t| student_within(t, degrees), 2.0 * quantile - 1.0)
}

/// The same of the normal distribution: Student's of very many degrees.
fn normal(quantile: f64) -> f64 {
    student(quantile, 100_000)
}

/// The probability of `-t..t`.
/// Source: Abramowitz and Stegun, 26.7.3 and 26.7.4: finite sums for whole degrees.
fn student_within(t: f64, degrees: usize) -> f64 {
    let angle = (t / (degrees as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut index = if odd { 1 } else { 0 };
    while index + 2 <= degrees {
        sum += term;
        // The next: cos^(k+2) times (k+1)/(k+2).
        term *= cosine * cosine * (index + 1) as f64 / (index + 2) as f64;
        index += 2;
    }
    match odd {
        true => 2.0 / std::f64::consts::PI * (angle + sine * sum),
        false => sine * sum,
    }
}

/// Where a growing function of a positive number has this value.
fn bisect(of: impl Fn(f64) -> f64, value: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if of(middle) < value {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Source: any table of Student's t.
        for (quantile, degrees, t) in [
            (0.975, 1, 12.706),
            (0.975, 2, 4.303),
            (0.975, 3, 3.182),
            (0.975, 10, 2.228),
            (0.995, 5, 4.032),
            (0.995, 8, 3.355),
        ] {
            let found = student(quantile, degrees);
            assert!((found - t).abs() < 0.001, "{quantile} {degrees}: {found}");
        }
        assert!((normal(0.975) - 1.960).abs() < 0.001);
    }

    #[test]
    fn runs_that_differ_among_themselves_say_little_of_the_sides() {
        let of = |before: &[f64], after: &[f64]| {
            Sides { before, after, between: 0.05, level: 0.05 }.difference()
        };
        // A loss of 8 %, each run known to 1 % and to 10 %.
        let near = of(&[99.0, 100.0, 101.0], &[91.0, 92.0, 93.0]);
        assert!(near.is_real() && (near.ratio - 0.92).abs() < 0.001);
        assert!(near.could_see().unwrap() < 0.03);
        let far = of(&[90.0, 100.0, 110.0], &[83.0, 92.0, 101.0]);
        assert!(!far.is_real() && far.could_see().unwrap() > 0.1);
    }

    #[test]
    fn one_run_a_side_is_known_as_well_as_runs_are_alike() {
        let of = |after: f64| {
            Sides { before: &[100.0], after: &[after], between: 0.1, level: 0.05 }.difference()
        };
        // 1.96 x 0.1 x sqrt 2 = 0.277; exp -0.277 = 0.758
        assert!((of(100.0).could_see().unwrap() - 0.242).abs() < 0.001);
        assert!(!of(80.0).is_real() && of(70.0).is_real());
    }

    #[test]
    fn quantiles_of_three_figures_taken_together_are_those_of_bonferronis_table() {
        // Source: Bailey, "Tables of the Bonferroni t statistics", 1977: 5 % two-sided over three.
        for (degrees, t) in [(5, 3.534), (10, 2.870), (20, 2.613), (30, 2.536), (60, 2.463)] {
            let found = student(1.0 - 0.05 / 3.0 / 2.0, degrees);
            assert!((found - t).abs() < 0.002, "{degrees}: {found}");
        }
    }

    /// Runs' three figures: what is common to them and what is each one's own, and now and then a neighbour who
    /// slows a run by a fifth.
    fn runs(count: usize, lost: f64, random: &mut fastrand::Rng) -> [Vec<f64>; 3] {
        let mut normal = || {
            // Source: Box and Muller, 1958.
            let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * random.f64()).cos(), random.f64())
        };
        let mut figures: [Vec<f64>; 3] = Default::default();
        for _ in 0..count {
            let (common, neighbour) = normal();
            let met = if neighbour < 0.1 { 0.2 } else { 0.0 };
            let log = 0.05 * common - met - lost;
            for (figure, sign) in figures.iter_mut().zip([1.0, -1.0, -1.0]) {
                figure.push((sign * log + 0.03 * normal().0).exp());
            }
        }
        figures
    }

    /// Of so many comparisons of so many runs a side, the share in which one of three figures is called different.
    fn called_different(count: usize, lost: f64, figures: usize) -> f64 {
        let mut random = fastrand::Rng::with_seed(14);
        let comparisons = 4_000;
        let different = (0..comparisons).filter(|_| {
            let before = runs(count, 0.0, &mut random);
            let after = runs(count, lost, &mut random);
            let mut sides = before.iter().zip(&after).take(figures);
            sides.any(|(before, after)| {
                let level = FALSE_ALARMS / figures as f64;
                Sides { before, after, between: 0.1, level }.difference().is_real()
            })
        });
        different.count() as f64 / comparisons as f64
    }

    #[test]
    fn runs_of_one_build_are_called_different_no_more_often_than_stated() {
        // 4,000 draws of 5 %: a standard deviation is 0.34 %.
        for count in [3, 5, 10, 20] {
            let share = called_different(count, 0.0, 3);
            println!("{count} runs a side, same build: {:.1} % called different", share * 100.0);
            assert!(share <= 0.05 + 3.0 * 0.0034, "{count} a side: {share}");
        }
        // One figure of 20 runs a side, fat tails and all, is as often wrong as it says, and not much less.
        let share = called_different(20, 0.0, 1);
        assert!((0.035..0.0605).contains(&share), "{share}");
    }

    #[test]
    fn a_planted_loss_is_found_more_often_with_more_runs() {
        let found: Vec<f64> = [3, 5, 10, 20].map(|count| called_different(count, 0.1, 3)).into();
        assert!(found.is_sorted() && found[0] > 0.05 && found[3] > 0.9, "{found:?}");
    }
}
