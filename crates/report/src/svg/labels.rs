//! Labels in a column that keep out of each other's way.

/// Lines of text that want to stand at a height.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Label {
    /// Where its middle wants to be.
    pub(crate) wants: f64,
    /// What it names, in lines.
    pub(crate) title: Vec<String>,
    /// What it says of it, in lines.
    pub(crate) rest: Vec<String>,
    /// Its class.
    pub(crate) class: String,
}

impl Label {
    /// How many lines it has.
    pub(crate) fn lines(&self) -> usize {
        self.title.len() + self.rest.len()
    }
}

/// The middles of labels, in the order given: as near to where they want to be as `gap` allows,
/// within `low..=high` where there is room. Order by height is kept, so leaders do not cross.
///
/// Labels that meet are taken together and stand around the mean of their wishes (isotonic
/// regression by pooling neighbours), so that a crowd spreads both ways.
pub(crate) fn spread(wants: &[f64], heights: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by(|a, b| wants[*a].total_cmp(&wants[*b]));
    let mut crowds: Vec<Crowd> = Vec::new();
    for &index in &order {
        let height = heights[index] + gap;
        let mut crowd = Crowd { members: vec![index], height, top: wants[index] - height / 2.0 };
        crowd.top = crowd.top.clamp(low, (high - height).max(low));
        while let Some(above) = crowds.pop() {
            if above.top + above.height <= crowd.top {
                crowds.push(above);
                break;
            }
            crowd = above.joined(crowd, low, high);
        }
        crowds.push(crowd);
    }
    let mut middles = wants.to_vec();
    for crowd in crowds {
        let mut top = crowd.top;
        for index in crowd.members {
            middles[index] = top + (heights[index] + gap) / 2.0;
            top += heights[index] + gap;
        }
    }
    middles
}

/// Labels that touch.
struct Crowd {
    members: Vec<usize>,
    height: f64,
    top: f64,
}

impl Crowd {
    /// The members of both, around the mean of where their tops would be, by number of members.
    fn joined(mut self, below: Crowd, low: f64, high: f64) -> Crowd {
        let (mine, theirs) = (self.members.len() as f64, below.members.len() as f64);
        let wants = (self.top * mine + (below.top - self.height) * theirs) / (mine + theirs);
        self.members.extend(below.members);
        self.height += below.height;
        self.top = wants.clamp(low, (high - self.height).max(low));
        self
    }
}

/// Words in lines of at most `room` characters.
pub(crate) fn wrap(says: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut last = String::new();
    for word in says.split_whitespace() {
        let mut word: String = word.to_owned();
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > room {
            lines.push(std::mem::take(&mut last));
        }
        // A word wider than the column (an id from outside) is cut rather than run off the picture.
        while word.chars().count() > room.max(4) {
            let cut: String = word.chars().take(room.max(4)).collect();
            word = word.chars().skip(room.max(4)).collect();
            lines.push(cut);
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last += &word;
    }
    if !last.is_empty() {
        lines.push(last);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_want_one_place_stand_around_it_in_their_order() {
        let middles = spread(&[50.0, 50.0, 50.0], &[10.0, 10.0, 10.0], 2.0, 0.0, 100.0);
        assert_eq!(middles, [38.0, 50.0, 62.0]);
    }

    #[test]
    fn at_the_foot_they_move_up_and_keep_their_order() {
        let middles = spread(&[99.0, 98.0, 10.0], &[10.0, 10.0, 10.0], 0.0, 0.0, 100.0);
        assert_eq!(middles, [95.0, 85.0, 10.0]);
    }

    #[test]
    fn whatever_they_want_none_lies_on_another() {
        // Places from a linear congruence: any would do, these are always the same.
        let mut place = 7_u32;
        for count in 1..12 {
            let wants: Vec<f64> = (0..count)
                .map(|_| {
                    place = place.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                    f64::from(place >> 16 & 0xff)
                })
                .collect();
            let heights: Vec<f64> = (0..count).map(|n| 10.0 + f64::from(n % 3)).collect();
            let middles = spread(&wants, &heights, 1.0, 0.0, 256.0);
            for a in 0..wants.len() {
                for b in 0..a {
                    let apart = (middles[a] - middles[b]).abs();
                    assert!(apart + 1e-9 >= (heights[a] + heights[b]) / 2.0, "{wants:?}");
                }
                assert!(middles[a] >= 0.0 && middles[a] <= 256.0);
            }
        }
    }

    #[test]
    fn a_word_wider_than_the_column_is_cut() {
        assert_eq!(wrap("no abcdefghij", 6), ["no", "abcdef", "ghij"]);
    }
}
