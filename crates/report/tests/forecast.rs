//! Predictions as documents: their schemas, that they read back, and what people are told of them.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jsonschema::Registry;
use linerate_model::{Bytes, OpRate, Path, Share};
use linerate_predict::{Change, Changed, Cpu, Crossing, Curve, Ends, Measured, Row, forecast};
use linerate_report::{
    Asked, Between, Document, FORMATS, Known, Look, PredictDocument, PredictRow, WasRun,
    WhatIfDocument,
};
use linerate_roofline::{Answer, Verdict};
use serde_json::Value;

const BASE: &str = "linerate:///schema/";

#[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
fn schema(name: &str) -> Value {
    let path = format!("{}/../../schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("schema/ is part of the repository");
    serde_json::from_str(&text).expect("a schema is JSON")
}

fn check(name: &str, document: &Value) -> Vec<String> {
    let (run, predict) = (schema("run"), schema("predict"));
    let registry = Registry::new()
        .add(format!("{BASE}run.json"), &run)
        .and_then(|registry| registry.add(format!("{BASE}predict.json"), &predict))
        .and_then(|registry| registry.prepare())
        .expect("they stand for themselves");
    let schema = schema(name);
    let validator = jsonschema::options()
        .with_base_uri(format!("{BASE}{name}.json"))
        .with_registry(&registry)
        .build(&schema)
        .expect("a schema is a schema");
    let wrong = validator.iter_errors(document);
    wrong.map(|error| format!("{}: {error}", error.instance_path())).collect()
}

fn written(format: &str, document: &Document) -> String {
    let format = FORMATS.iter().find(|known| known.name == format).expect("a format by that name");
    (format.render)(document, &Look::default())
}

fn crossing() -> Crossing {
    Crossing {
        path: Path { limit: Some(1_000), ..Path::of_rtt(Duration::from_millis(10)) },
        share: Share(0.5),
        servers: 4,
        ends: Ends::Both,
        request: Bytes(1_026),
        response: Bytes(1_026),
        window: None,
    }
}

fn predict() -> Document {
    let column = [(200, 457e3), (400, 514e3), (2_000, 594e3), (4_000, 627e3)];
    let rows: Vec<Row> = column
        .iter()
        .map(|(connections, x)| Row {
            connections: *connections,
            throughput: OpRate(*x),
            fastest: None,
        })
        .collect();
    let curve = Curve::new(&rows, Some(0.25e-3)).unwrap();
    let known = Known { connections: 400, per_s: 77_620.0, mean_us: Some(5_168.0) };
    let row = |count| {
        PredictRow::new(forecast(&curve, &crossing(), count), (count == 400).then_some(known))
    };
    let measured = rows.iter().map(|row| Known {
        connections: row.connections,
        per_s: row.throughput.0,
        mean_us: None,
    });
    Document::Predict(Box::new(PredictDocument {
        schema: PredictDocument::SCHEMA.into(),
        program: "0.1.0".into(),
        from: "sites.csv, scenario=A".into(),
        measured: measured.collect(),
        crossing: Between::of(&crossing()),
        demands: curve.demands(),
        usl: curve.usl(),
        rows: [400, 3_000].map(row).to_vec(),
        against: Some("scenario=B".into()),
        blind_spots: PredictDocument::blind_spots(),
    }))
}

fn what_if() -> Document {
    let measured = Measured {
        connections: 20,
        throughput: OpRate(1_000.0),
        cpus: vec![Cpu { id: "host.cpu".into(), demand_s: 100e-6, cpus: 2 }],
        threads: Vec::new(),
        crossing: Crossing::default(),
        alone: Some(1.2e-3),
        held_by: Some("vm.funnel".into()),
        noise: 0.01,
    };
    let verdict =
        Verdict { state: Answer::Bound, by: Some("vm.funnel".into()), says: "one process".into() };
    let changed = Changed::new(measured.clone(), Change { cpus: Some(8), hosts: None });
    let expect = forecast(&changed, &crossing(), 500);
    let run = WasRun {
        name: "shop".into(),
        connections: 20,
        throughput_per_s: 1_000.0,
        mean_latency_us: 20_000.0,
        verdict: verdict.clone(),
        crossing: Between::of(&measured.crossing),
        cpus: measured.cpus.clone(),
        threads: Vec::new(),
        delay_us: changed.delay() * 1e6,
        unknown_us: changed.unknown() * 1e6,
    };
    Document::WhatIf(Box::new(WhatIfDocument {
        schema: WhatIfDocument::SCHEMA.into(),
        program: "0.1.0".into(),
        from: "run.jsonl".into(),
        run,
        change: Asked { connections: Some(500), cpus: Some(8), hosts: None },
        crossing: Between::of(&crossing()),
        ratio: expect.throughput_per_s.mid.0 / 1_000.0,
        expect,
        blind_spots: WhatIfDocument::blind_spots(&verdict, true),
    }))
}

#[test]
fn both_are_as_their_schemas_say_and_read_back_as_they_were_written() {
    for (name, document) in [("predict", predict()), ("what-if", what_if())] {
        let json = written("json", &document);
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(check(name, &value), Vec::<String>::new(), "{name}");
        assert_eq!(Document::read(&json), Ok(document), "{name}");
        let mut more = value;
        more["undescribed"] = Value::from(1);
        assert!(!check(name, &more).is_empty(), "{name}");
    }
}

#[test]
fn text_tells_the_figure_its_interval_the_limit_in_words_and_what_is_not_seen() {
    let text = written("text", &predict());
    for says in [
        "FROM   sites.csv, scenario=A",
        "1,000 packets at most",
        "50.0 % of",
        "path.queue-limit: 1,000 packets / 5.00 ms = 200,000 packets/s each way",
        "1 of 1 rows within their interval",
        "not seen: ",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 82), "{text}");
    let text = written("text", &what_if());
    for says in [
        "IF     500 connections, 8 CPUs, 10.0 ms round trip",
        "LIMIT  vm.funnel: 1.1 exchanges at a time",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert!(text.contains("linerate explain vm.funnel"), "{text}");
}

#[test]
fn each_other_format_has_the_same_figure() {
    for document in [predict(), what_if()] {
        for format in ["markdown", "html"] {
            let text = written(format, &document);
            assert!(text.contains("path.queue-limit"), "{format}: {text}");
        }
        assert!(written("csv", &document).starts_with("connections,predicted_low_per_s,"));
    }
}
