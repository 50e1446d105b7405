//! What laying networks needs, acquired while this process has one thread.

use linerate_model::Plan;

use crate::failure::Failure;

/// Enters a user namespace, if one of the plans needs networks and this user may lay none otherwise.
pub fn for_plans<'a>(
    plans: impl IntoIterator<Item = &'a Plan>,
    verbose: bool,
) -> Result<(), Failure> {
    let lays_networks = |plan: &Plan| plan.path.is_some() || !plan.sites.is_empty();
    if !plans.into_iter().any(lays_networks) {
        return Ok(());
    }
    linerate_lab::acquire_privileges(verbose).map_err(Failure::run)
}
