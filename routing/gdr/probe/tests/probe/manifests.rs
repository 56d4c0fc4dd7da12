//! Manifests for Kubernetes: YAML that parses, with options that the agent takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_yaml_ng::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/agent/kubernetes")
}

fn text(file: &str) -> String {
    let path = folder().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse(name: &str, text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The template with the chart's values, as Helm writes them in.
fn rendered() -> Value {
    let values = parse("values.yaml", &text("helm/values.yaml"));
    let mut marks = BTreeMap::from([(".Release.Namespace".to_owned(), "kube-system".to_owned())]);
    for (name, value) in values.as_mapping().expect("a table of values") {
        let value = match value {
            Value::Number(number) => number.to_string(),
            other => other.as_str().expect("a text or a number").to_owned(),
        };
        let name = name.as_str().expect("a name");
        marks.insert(format!(".Values.{name}"), value);
    }
    let mut template = text("helm/templates/daemonset.yaml");
    for (name, value) in marks {
        let mark = format!("{{{{ {name} }}}}");
        assert!(template.contains(&mark), "nothing uses {name}");
        template = template.replace(&mark, &value);
    }
    assert!(!template.contains("{{"), "a value is missing: {template}");
    parse("templates/daemonset.yaml", &template)
}

#[test]
fn chart_with_its_values_is_the_plain_manifest() {
    let plain = parse("daemonset.yaml", &text("daemonset.yaml"));
    assert_eq!(rendered(), plain);
    let chart = parse("Chart.yaml", &text("helm/Chart.yaml"));
    assert_eq!(chart["name"].as_str(), Some("rsm-agent"));
    assert_eq!(chart["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn options_and_variables_of_the_manifest_are_the_agents() {
    let plain = parse("daemonset.yaml", &text("daemonset.yaml"));
    let declared = include_str!("../../../agent/src/arguments.rs");
    let container = &plain["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_sequence().expect("arguments");
    let options = arguments.iter().filter_map(Value::as_str);
    let options: Vec<&str> = options.filter_map(|text| text.strip_prefix("--")).collect();
    assert_eq!(options, ["every", "spread"]);
    for option in options {
        assert!(declared.contains(&format!("    {option}: ")), "{option}");
    }
    let variables = container["env"].as_sequence().expect("variables");
    let names = variables
        .iter()
        .filter_map(|variable| variable["name"].as_str());
    let names: Vec<&str> = names.filter(|name| name.starts_with("RSM_")).collect();
    assert_eq!(names.len(), 5);
    for name in names {
        assert!(declared.contains(&format!("env = \"{name}\"")), "{name}");
    }
}
