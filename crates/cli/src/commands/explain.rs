//! `explain`: a roof's page.

use linerate_roofline::roofs::ROOFS;

use crate::failure::Failure;
use crate::output::print;

/// See the module.
pub fn explain(id: Option<&str>) -> Result<u8, Failure> {
    let Some(id) = id else {
        let list: String =
            ROOFS.iter().map(|roof| format!("{:<26}{}\n", roof.id, roof.title)).collect();
        print(&list)?;
        return Ok(0);
    };
    // `nagle` is enough where it is the only one.
    let found: Vec<_> = match ROOFS.iter().find(|roof| roof.id == id) {
        Some(roof) => vec![roof],
        None => ROOFS.iter().filter(|roof| roof.id.contains(id)).collect(),
    };
    match found[..] {
        [roof] => print(roof.page).map(|()| 0),
        [_, ..] => {
            let ids: Vec<_> = found.iter().map(|roof| roof.id).collect();
            Err(Failure::plan(format!(
                "`{id}` means several roofs: write one of {}",
                ids.join(", ")
            )))
        }
        [] => Err(Failure::plan(format!(
            "`{id}` is not a roof: did you mean {}? `linerate explain` lists all",
            nearest(id).join(", ")
        ))),
    }
}

/// How many ids are offered instead of one that is none.
// Chosen: a line's worth.
const OFFERED: usize = 3;

/// Those most like it, word for word.
fn nearest(id: &str) -> Vec<&'static str> {
    let words = |id: &'_ str| id.split(['.', '-']).map(str::to_owned).collect::<Vec<_>>();
    let typed = words(id);
    let alike = |of: &str| {
        let best = |word: &String| {
            let each = words(of).into_iter().map(|own| strsim::jaro_winkler(&own, word));
            each.fold(0.0, f64::max)
        };
        typed.iter().map(best).sum::<f64>()
    };
    let mut ids: Vec<_> = ROOFS.iter().map(|roof| (alike(roof.id), roof.id)).collect();
    ids.sort_by(|a, b| b.0.total_cmp(&a.0));
    ids.into_iter().take(OFFERED).map(|(_, id)| id).collect()
}
