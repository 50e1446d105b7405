//! Keys of a plan, of the fields in `linerate-model` and the comments above them. The model's crate is laid out by
//! rustfmt: a field is a line, its comments and attributes are the lines above.

use std::fmt::Write;

use linerate_model::Plan;
use toml::Value;

use super::{cell, text};

/// A table of a plan: how it is written there, the file and the struct or variant of its fields.
const TABLES: [(&str, &str, &str); 20] = [
    ("", "plan", "pub struct Plan {"),
    ("target", "plan", "pub struct Target {"),
    ("workload", "plan", "    Http {"),
    ("workload", "plan", "    Rr {"),
    ("workload", "plan", "    Crr {"),
    ("workload", "plan", "    Raw {"),
    ("workload", "plan", "    Stream {"),
    ("workload.until", "raw", "pub struct Ending {"),
    ("workload.until.length", "raw", "pub struct LengthField {"),
    ("[workload.also]", "plan", "pub struct Also {"),
    ("workload.requests", "requests", "pub struct Requests {"),
    ("workload.expected", "requests", "pub struct Expected {"),
    ("load", "plan", "pub struct Load {"),
    ("[load.stages]", "plan", "pub struct Stage {"),
    ("until", "plan", "pub struct Until {"),
    ("engine", "plan", "pub struct EngineOptions {"),
    ("path", "path", "pub struct Path {"),
    ("path.out", "path", "pub struct DirectionChange {"),
    ("[sites]", "sites", "pub struct Site {"),
    ("[links]", "sites", "pub struct Link {"),
];

pub(super) fn part() -> String {
    let defaults = Plan::from_toml("[target]\naddress = '127.0.0.1:80'").expect("the least plan");
    let defaults = Value::try_from(defaults).expect("a plan is TOML");
    let mut page = "## Plan keys\n\n\
        A plan is TOML. `-k TABLE.KEY=VALUE` overrides a key for a run. A time is written `10ms`, a size `64KiB`, \
        a share `0.1%`, a rate of requests `20k`, a bit rate `200Mbit`.\n"
        .to_owned();
    for (table, file, opening) in TABLES {
        let source = text(&format!("crates/model/src/{file}.rs"));
        let found = block(&source, opening);
        let variant = opening.trim().trim_end_matches(" {");
        let title = match (table, opening.starts_with(' ')) {
            ("", _) => "The plan itself".to_owned(),
            ("path.out", _) => "`[path.out]` and `[path.back]`".to_owned(),
            (_, true) => format!("`[{table}]` with `kind = \"{}\"`", variant.to_lowercase()),
            _ => format!("`[{table}]`"),
        };
        let _ = write!(page, "\n### {title}\n\n{}\n\n", found.says);
        page += "| key | value | default | is |\n|---|---|---|---|\n";
        for field in found.fields {
            let of_table = table.split('.').filter(|it| !it.is_empty());
            let place = of_table.clone().try_fold(&defaults, |at, key| at.get(key));
            // The least plan's target and name are no defaults.
            let given = ["", "target"].contains(&table);
            let default = match place.and_then(|at| at.get(&field.name)).filter(|_| !given) {
                _ if field.is_required => "required".to_owned(),
                Some(value) if !value.is_table() => format!("`{value}`"),
                _ => field.default.map_or(String::new(), |default| format!("`{default}`")),
            };
            let (kind, says) = (kind(&field.kind), cell(&field.says));
            let _ = writeln!(page, "| `{}` | {kind} | {default} | {says} |", field.name);
        }
    }
    page
}

/// What stands in braces, and the comment above.
struct Block {
    says: String,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    kind: String,
    says: String,
    is_required: bool,
    /// Of a field that is not written where it has its default.
    default: Option<String>,
}

fn block(source: &str, opening: &str) -> Block {
    let lines: Vec<&str> = source.lines().collect();
    let at = lines.iter().position(|line| *line == opening);
    let at = at.unwrap_or_else(|| panic!("no line `{opening}`"));
    let indent = opening.len() - opening.trim_start().len();
    let above: Vec<&str> =
        lines[..at].iter().rev().take_while(|line| is_above(line)).copied().collect();
    let above: Vec<&str> = above.into_iter().rev().collect();
    let has_defaults =
        above.iter().any(|line| line.starts_with("#[serde") && line.contains("default"));
    let mut block = Block { says: says(&above), fields: Vec::new() };
    let mut above = Vec::new();
    for line in lines[at + 1..]
        .iter()
        .take_while(|line| line.trim_end_matches(',') != format!("{:indent$}}}", ""))
    {
        if is_above(line) {
            above.push(*line);
            continue;
        }
        let (name, kind) =
            line.trim().trim_start_matches("pub ").split_once(": ").expect("a field");
        let attributes = above.iter().filter(|line| line.trim().starts_with("#[serde")).copied();
        let attributes: String = attributes.collect();
        if !attributes.contains("(skip)") {
            let kind = kind.trim_end_matches(',');
            block.fields.push(Field {
                name: name.to_owned(),
                default: default(kind, &attributes),
                kind: kind.to_owned(),
                says: says(&above),
                is_required: !has_defaults && !attributes.contains("default"),
            });
        }
        above.clear();
    }
    block
}

fn is_above(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("///") || line.starts_with("#[")
}

/// The comment's text; links to code are the names.
fn says(above: &[&str]) -> String {
    let lines = above.iter().filter_map(|line| line.trim().strip_prefix("///"));
    let text = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let text = text.replace("[`Path`]", "`[path]`");
    text.replace("See [`Path::", "As `path.")
        .replace("`].", "`.")
        .replace("[`", "`")
        .replace("`]", "`")
}

/// The value of a key, in words.
fn kind(of: &str) -> String {
    if let Some(inner) = of.strip_prefix("Option<").and_then(|of| of.strip_suffix('>')) {
        return kind(inner);
    }
    match of {
        "String" => "text".to_owned(),
        "PathBuf" => "a file".to_owned(),
        "bool" => "`true`, `false`".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "f64" | "Cpus" => "number".to_owned(),
        "Duration" => "time".to_owned(),
        "Bytes" => "size".to_owned(),
        "OpRate" => "rate".to_owned(),
        "BitRate" => "bit rate".to_owned(),
        "Think" => "think time".to_owned(),
        "Share" => "share".to_owned(),
        "Queue" => "packets or size".to_owned(),
        "Statuses" => "`200,204`, `2xx`".to_owned(),
        "Body" => "`{ text = TEXT }`, `{ size = SIZE }` or `{ file = FILE }`".to_owned(),
        "Sent" => "`{ text = TEXT }`, `{ hex = DIGITS }` or `{ file = FILE }`".to_owned(),
        "Vec<String>" => "list of texts".to_owned(),
        "[String; 2]" => "two texts".to_owned(),
        "Vec<u16>" => "list of numbers".to_owned(),
        "Vec<(String, String)>" => "list of pairs".to_owned(),
        "BTreeMap<String, String>" => "table of texts".to_owned(),
        "Target" | "Workload" | "Load" | "Until" | "EngineOptions" | "Path" | "DirectionChange"
        | "Requests" | "Expected" | "Ending" | "LengthField" => "table".to_owned(),
        "Vec<Site>" | "Vec<Link>" | "Vec<Also>" | "Vec<Stage>" => "tables".to_owned(),
        // Of linerate's own tests.
        "Expect" => "table".to_owned(),
        other => values(other),
    }
}

/// What a key is that is left out. Of a bool its attribute says which value is not written.
fn default(kind: &str, attributes: &str) -> Option<String> {
    match kind {
        "bool" if attributes.contains("Clone::clone") => Some("true".to_owned()),
        "bool" => Some("false".to_owned()),
        _ => {
            let body = words_of(kind)?;
            let (_, after) = body.split_once("#[default]\n")?;
            Some(format!("\"{}\"", after.trim_start().split(',').next()?.to_lowercase()))
        }
    }
}

/// What stands in the braces of an enum.
fn words_of(name: &str) -> Option<String> {
    let files = ["plan", "path", "requests", "raw", "stream"]
        .map(|file| text(&format!("crates/model/src/{file}.rs")));
    let opening = format!("pub enum {name} {{\n");
    let found = files
        .iter()
        .find_map(|source| Some(source.split_once(&opening)?.1.split_once("\n}")?.0))?;
    Some(found.to_owned())
}

/// The values of an enum of words.
fn values(name: &str) -> String {
    let body = words_of(name).unwrap_or_else(|| panic!("no words for a value of type `{name}`"));
    let words = body.lines().map(str::trim).filter(|line| !line.is_empty() && !is_above(line));
    let words: Vec<String> =
        words.map(|word| format!("`{}`", word.trim_end_matches(',').to_lowercase())).collect();
    words.join(", ")
}
