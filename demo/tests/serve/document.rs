//! The OpenAPI document: it is valid, its examples are accepted, and the server answers nothing else than it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use crate::Result;
use crate::server::{Answer, Server};

/// The tools, and what of PyPI they are.
const TOOLS: [&str; 2] = ["openapi-spec-validator==0.9.0", "schemathesis==4.32.5"];

#[test]
fn it_is_valid_and_says_all_that_is_answered() -> Result {
    let tools = tools()?;
    let server = Server::start()?;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    std::fs::write(&file, server.get("/openapi.json")?.text)?;
    run(Command::new(tools.join("openapi-spec-validator")).arg(file))?;
    run(Command::new(tools.join("schemathesis"))
        .args(["run", "--seed=1", "--max-examples=20", "--no-color"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"])
        .arg(format!("{}/openapi.json", server.url))
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("NO_PROXY", "127.0.0.1"))
}

/// The programs of a virtual environment, which is made for the first run and kept for the next.
fn tools() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi-tools");
    let programs = folder.join("bin");
    if run(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(TOOLS)).is_err() {
        let make = || {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
            run(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(TOOLS))
        };
        make().map_err(|error| {
            let tools = TOOLS.join(" and ");
            format!("this test needs {tools} of PyPI, and on Debian `apt-get install python3-venv`: {error}")
        })?;
    }
    Ok(programs)
}

/// Runs a program, and fails with all that it printed.
fn run(command: &mut Command) -> Result {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let printed = [output.stdout, output.stderr].concat();
            Err(format!("{program}: {}\n{}", output.status, String::from_utf8_lossy(&printed))
                .into())
        }
    }
}

#[test]
fn its_examples_are_accepted() -> Result {
    let server = Server::start()?;
    let document = server.get("/openapi.json")?.json()?;
    let (mut ids, mut cursors, mut bodies) = (0, 0, 0);
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let accepted = |answer: Answer| {
                assert!(answer.status < 300, "{method} {path}: {answer:?}");
            };
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if !body.is_null() {
                accepted(server.post(path, &example(&document, body)?)?);
                bodies += 1;
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().ok_or("no name")?;
                let Ok(Value::String(example)) = example(&document, &parameter["schema"]) else {
                    assert_eq!(name, "limit", "{path} has no example");
                    continue;
                };
                if parameter["in"] == "path" {
                    accepted(server.get(&path.replace(&format!("{{{name}}}"), &example))?);
                    ids += 1;
                } else {
                    accepted(server.get(&format!("{path}?{name}={example}"))?);
                    cursors += 1;
                }
            }
        }
    }
    assert_eq!((ids, cursors, bodies), (3, 12, 1));
    Ok(())
}

/// The first example of a schema, made of those of its properties.
fn example(document: &Value, schema: &Value) -> Result<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).ok_or(reference)?;
        return example(document, schema);
    }
    if let Some(properties) = schema["properties"].as_object() {
        let properties =
            properties.iter().map(|(name, schema)| Ok((name.clone(), example(document, schema)?)));
        return Ok(Value::Object(properties.collect::<Result<Map<_, _>>>()?));
    }
    Ok(schema["examples"].get(0).ok_or_else(|| format!("no example: {schema}"))?.clone())
}
