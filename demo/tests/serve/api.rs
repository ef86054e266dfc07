//! The API over HTTP, with the same steps on every database, and the requests that the server refuses.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers;
use serde_json::{Value, json};

use crate::server::{Answer, Server, demo};
use crate::{Error, Result};

#[test]
fn on_every_database() -> Result {
    let kinds = Engine::asked_for()?;
    for (kind, server) in servers::start(&kinds)? {
        let database = Database::create(kind, &server)?;
        steps(&database.url).map_err(|error| format!("{kind}: {error}"))?;
    }
    Ok(())
}

fn start(url: &str) -> Result<Server> {
    let mut serve = demo(&["serve", "--port", "0"]);
    serve.env("DATABASE_URL", url);
    Server::start_by(serve)
}

fn rows(answer: &Answer) -> Result<Vec<Value>> {
    let json = answer.json()?;
    let rows = json["rows"].as_array().or(json.as_array());
    Ok(rows.ok_or_else(|| format!("no rows: {answer:?}"))?.clone())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn steps(url: &str) -> Result {
    let server = start(url)?;
    pages(&server)?;
    ids(&server)?;
    new_order(&server)?;
    rotation(&server)?;
    drop(server);

    // The rows exist only once.
    let server = start(url)?;
    assert_eq!(rows(&server.get("/api/customers?limit=100")?)?.len(), 12);
    assert_eq!(rows(&server.get("/api/invoices?limit=100")?)?.len(), 100);
    Ok(())
}

/// The list is read forwards by `next`, and back by the header `Link`.
fn pages(server: &Server) -> Result {
    let mut query = "limit=40".to_owned();
    let (mut shown, mut stored) = (Vec::new(), Vec::new());
    for expected in [40, 40, 20] {
        let page = server.get(&format!("/api/orders?{query}"))?;
        let inside = server.get(&format!("/demo/database/orders?{query}"))?;
        assert_eq!(rows(&page)?.len(), expected);
        shown.extend(rows(&page)?);
        stored.extend(rows(&inside)?);
        query = format!("limit=40&starting_after={}", text(&page.json()?["next"]));
    }
    assert!(query.ends_with('='), "the last page has no next one: {query}");

    let keys: Vec<&str> = stored.iter().map(|row| text(&row["id"])).collect();
    assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == 32), "{keys:?}");
    let mut ids: Vec<&str> = shown.iter().map(|row| text(&row["id"])).collect();
    assert!(!ids.is_sorted());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100);
    for (shown, stored) in shown.iter().zip(&stored) {
        assert_eq!(shown["item"], stored["item"]);
    }

    let third = server.get("/api/orders?limit=1")?;
    let third = text(&third.json()?["next"]).to_owned();
    let after = server.get(&format!("/api/orders?limit=1&starting_after={third}"))?;
    let previous = after.link.split(['<', '>']).find(|link| link.contains("ending_before"));
    let before = server.get(&format!("/api/orders{}", previous.ok_or("no previous page")?))?;
    assert_eq!(rows(&before)?, [shown[0].clone()]);
    Ok(())
}

/// Every id opens to its own row. Any other text has the same answer.
fn ids(server: &Server) -> Result {
    let mut refused = Vec::new();
    for table in ["customers", "orders", "invoices"] {
        for row in rows(&server.get(&format!("/api/{table}?limit=3"))?)? {
            let id = text(&row["id"]);
            assert_eq!(server.get(&format!("/api/{table}/{id}"))?.json()?, row);
            for other in ["customers", "orders", "invoices"] {
                let tampered = replace_last(id);
                refused.push(server.get(&format!("/api/{other}/{tampered}"))?);
                if other != table {
                    refused.push(server.get(&format!("/api/{other}/{id}"))?);
                }
            }
        }
        refused.push(server.get(&format!("/api/{table}/1"))?);
        refused.push(server.get(&format!("/api/{table}?starting_after={table}"))?);
    }
    refused.push(server.get("/nowhere")?);
    refused.dedup();
    let [answer] = &refused[..] else {
        return Err(format!("several answers: {refused:?}").into());
    };
    assert_eq!((answer.status, &*answer.kind), (404, "application/problem+json"));
    Ok(())
}

fn replace_last(id: &str) -> String {
    let (head, last) = id.split_at(id.len() - 1);
    format!("{head}{}", if last == "0" { "1" } else { "0" })
}

fn new_order(server: &Server) -> Result {
    let customer = rows(&server.get("/api/customers?limit=1")?)?.remove(0);
    let customer = text(&customer["id"]);
    let longest = "\u{1f9f5}".repeat(100);
    let added = server.post("/api/orders", &json!({ "customer": customer, "item": longest }))?;
    assert_eq!(added.status, 201, "{added:?}");
    let id = added.json()?["id"].clone();
    assert_eq!(server.get(&format!("/api/orders/{}", text(&id)))?.text, added.text);

    let mut refused = Vec::new();
    // One in 64 opens, and has no row.
    for number in 0..200 {
        let digits = format!("{number:03}");
        let made_up = format!("{}{digits}", &customer[..customer.len() - 3]);
        if made_up != customer {
            refused
                .push(server.post("/api/orders", &json!({ "customer": made_up, "item": "loom" }))?);
        }
    }
    refused.push(server.post("/api/orders", &json!({ "customer": id, "item": "loom" }))?);
    refused.push(server.post("/api/orders", &json!({ "customer": "7", "item": "loom" }))?);
    refused.dedup();
    let [answer] = &refused[..] else {
        return Err(format!("several answers: {refused:?}").into());
    };
    assert_eq!(answer.status, 422);
    assert_eq!(
        answer.json()?["errors"],
        json!([{ "pointer": "/customer", "detail": "no such `cus`" }])
    );
    for item in ["", "a\0b", "line\nline", &"x".repeat(101)] {
        let answer = server.post("/api/orders", &json!({ "customer": customer, "item": item }))?;
        assert_eq!(answer.json()?["errors"][0]["pointer"], "/item", "{item:?}");
    }
    for body in
        [json!([]), json!({ "customer": customer }), json!({ "customer": 7, "item": "loom" })]
    {
        assert_eq!(server.post("/api/orders", &body)?.status, 422);
    }
    Ok(())
}

fn rotation(server: &Server) -> Result {
    let step = |step: &str| {
        Ok::<_, Error>(server.post(&format!("/demo/secrets/{step}"), &Value::Null)?.status)
    };
    let first = |table: &str| -> Result<String> {
        let page = server.get(&format!("/api/{table}?limit=1"))?;
        Ok(text(&rows(&page)?[0]["id"]).to_owned())
    };
    let show = |id: &str| server.get(&format!("/api/invoices/{id}"));
    let old = first("invoices")?;
    let cursor = server.get("/api/invoices?limit=1")?.json()?["next"].clone();
    let next = format!("/api/invoices?limit=1&starting_after={}", text(&cursor));

    assert_eq!(step("retire")?, 409, "the only one");
    assert_eq!(step("rotate")?, 204);
    let new = first("invoices")?;
    assert_ne!(new, old);
    assert_eq!(show(&old)?, show(&new)?);
    assert_eq!(server.get(&next)?.status, 200);
    assert_eq!(step("retire")?, 204);
    assert_eq!((show(&old)?.status, show(&new)?.status), (404, 200));
    assert_eq!(server.get(&next)?.status, 404);

    // Key ids are reused after the others, and their old ids stay refused.
    for _ in 0..4 {
        assert_eq!((step("rotate")?, step("rotate")?, step("rotate")?), (204, 204, 409));
        assert_eq!((step("retire")?, step("retire")?), (204, 204));
        assert_eq!(show(&old)?.status, 404);
    }
    let secrets = server.get("/demo/secrets")?.json()?;
    assert_eq!(secrets.as_array().map(Vec::len), Some(2), "{secrets}");
    Ok(())
}

/// `Host` shows DNS rebinding, and `Origin` shows a request that another site caused.
#[test]
fn other_sites_are_refused() -> Result {
    let server = Server::start()?;
    let own = server.url.trim_start_matches("http://").to_owned();
    let (_, port) = own.split_once(':').ok_or("no port")?;
    let send = |first: &str, headers: &str| {
        server.send(&format!(
            "{first} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: 0\r\n\r\n"
        ))
    };
    let rotate = "POST /demo/secrets/rotate";
    for (status, host) in [
        (200, own.clone()),
        (200, format!("localhost:{port}")),
        (200, "localhost".to_owned()),
        (403, format!("rebound.example:{port}")),
        (403, format!("localhost.rebound.example:{port}")),
        (403, format!("localhost:{port}@rebound.example")),
        (403, String::new()),
    ] {
        assert_eq!(
            send("GET /demo/database/orders", &format!("host: {host}\r\n"))?,
            status,
            "{host}"
        );
    }
    for (status, origin) in [
        (204, format!("http://{own}")),
        (403, "http://rebound.example".to_owned()),
        (403, format!("http://localhost:{port}")),
        (403, "http://127.0.0.1:1".to_owned()),
        (403, "null".to_owned()),
        (403, "\u{e9}".to_owned()),
        (403, String::new()),
    ] {
        assert_eq!(
            send(rotate, &format!("host: {own}\r\norigin: {origin}\r\n"))?,
            status,
            "{origin}"
        );
    }
    assert_eq!(send("GET /", "")?, 403, "no host");
    Ok(())
}

/// A connected client does not prevent the end, and no file is left behind.
#[test]
fn it_ends_on_ctrl_c() -> Result {
    let folder = tempfile::tempdir()?;
    let mut serve = demo(&["serve", "--port", "0"]);
    serve.env("TMPDIR", folder.path());
    let mut server = Server::start_by(serve)?;
    assert_eq!(server.get("/")?.status, 200);
    let mut waiting = TcpStream::connect(server.url.trim_start_matches("http://"))?;
    waiting.write_all(b"POST /api/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n")?;
    assert_eq!(folder.path().read_dir()?.count(), 1);
    let process = server.process.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status()?.success());
    assert!(server.process.0.wait()?.success());
    assert_eq!(folder.path().read_dir()?.count(), 0);
    Ok(())
}

#[test]
fn what_the_operator_did_wrong() -> Result {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let port = taken.local_addr()?.port().to_string();
    let failed = |serve: &mut Command| -> Result<String> {
        let Output { status, stderr, .. } = serve.output()?;
        assert_eq!(status.code(), Some(1), "an error, not a panic");
        Ok(String::from_utf8(stderr)?)
    };
    assert!(failed(&mut demo(&["serve", "--port", &port]))?.contains("--port 0"));
    for url in ["", "shop.db", "postgres://user:hunter2@[/shop", "mongodb://user:hunter2@host/shop"]
    {
        let error = failed(demo(&["serve", "--port", "0"]).env("DATABASE_URL", url))?;
        assert!(error.contains("expected a DATABASE_URL such as"), "{error}");
        assert!(!error.contains("hunter2"));
    }
    for url in ["sqlite:///nowhere/shop.db", "mysql://user:hunter2@127.0.0.1:1/shop"] {
        let error = failed(demo(&["serve", "--port", "0"]).env("DATABASE_URL", url))?;
        assert!(!error.contains("hunter2") && !error.is_empty());
    }
    Ok(())
}
