//! The registry of roofs: ids, pages, what provokes each, and that none asks another.
#![allow(clippy::unwrap_used)]

use linerate_roofline::roofs::ROOFS;

#[test]
fn ids_are_unique_and_of_the_form_layer_dot_limit() {
    let mut ids: Vec<_> = ROOFS.iter().map(|roof| roof.id).collect();
    assert!(ids.iter().all(|id| id.split('.').count() == 2), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ROOFS.len());
}

#[test]
fn every_roof_has_a_page_that_begins_with_its_id() {
    for roof in ROOFS {
        let heading = format!("# {}\n", roof.id);
        assert!(roof.page.starts_with(&heading), "{}", roof.id);
    }
}

#[test]
fn every_roof_has_a_plan_that_provokes_it_or_a_node_that_has_it() {
    let plans = texts(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/provoke"));
    let nodes = texts(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nodes"));
    // linerate itself is planted by whoever starts it.
    let foreign = texts(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/foreign"));
    let holds = |texts: &[String], line: String| texts.iter().any(|text| text.contains(&line));
    for roof in ROOFS {
        let by_plan = ["verdict", "latency"]
            .iter()
            .any(|answer| holds(&plans, format!("{answer} = \"{}\"", roof.id)));
        let by_node = holds(&nodes, format!("roof=\"{}\"", roof.id));
        let by_service = holds(&foreign, format!("accepted = [\"{}\"]", roof.id));
        assert!(by_plan || by_node || by_service, "{}", roof.id);
    }
}

/// A rule asks facts, never another rule: what two need is a fact. A part of a rule, in a folder of its own, may ask it.
#[test]
fn no_roof_imports_another() {
    let families = concat!(env!("CARGO_MANIFEST_DIR"), "/src/roofs");
    let mut read = 0;
    for (name, text) in rules(families.as_ref()) {
        read += 1;
        let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
        for line in code.filter(|line| !line.contains("pub(")) {
            assert!(!line.contains("super::") && !line.contains("crate::roofs"), "{name}: {line}");
        }
    }
    assert!(read >= ROOFS.len() / 2, "{read}");
}

/// Each rule's file, by its name.
#[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
fn rules(families: &std::path::Path) -> Vec<(String, String)> {
    let files = |folder: &std::path::Path| {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect::<Vec<_>>()
    };
    let families = std::fs::read_dir(families).unwrap().map(|entry| entry.unwrap().path());
    let all = families.filter(|path| path.is_dir()).flat_map(|folder| files(&folder));
    all.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect()
}

#[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
fn texts(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it is part of the repository").flatten();
    entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
}
