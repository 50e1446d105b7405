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
        [] => {
            let ids: Vec<_> = ROOFS.iter().map(|roof| roof.id).collect();
            Err(Failure::plan(format!("`{id}` is not a roof: write one of {}", ids.join(", "))))
        }
    }
}
