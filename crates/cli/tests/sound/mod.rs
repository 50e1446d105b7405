//! What holds of every run's JSON, whatever it measured.

use serde_json::Value;

/// Conservation exactly, and Little's law within 2 % on a valid run.
pub fn assert_sound(run: &Value) {
    let load = &run["load"];
    let count = |key: &str| load[key].as_u64().expect("the schema has it as a count");
    let errors = load["errors"].as_object().into_iter().flat_map(|errors| errors.values());
    let failed: u64 = errors.filter_map(Value::as_u64).sum();
    assert_eq!(
        count("scheduled"),
        count("answered") + failed + count("timed_out") + count("in_flight_at_end"),
        "conservation of {}",
        run["plan"]["name"]
    );
    if run["validity"]["state"] == "valid" {
        let figure = |key: &str| load[key].as_f64().expect("the schema has it as a number");
        let (n, xr) = (figure("in_flight_mean"), figure("in_flight_by_little"));
        assert!((n - xr).abs() <= 0.02 * n.max(xr), "Little's law: {n} in flight, X R = {xr}");
    }
}
