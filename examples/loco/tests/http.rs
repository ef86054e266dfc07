//! The application answers over HTTP.

use loco_notes::app::App;
use loco_rs::app::Hooks;
use loco_rs::boot::StartMode;
use loco_rs::environment::Environment;
use opaque_id_seaorm::MasterSecret;
use serde_json::{Value, json};

type Answer = (u16, Value);

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_opened_and_views_are_sealed() {
    // SAFETY: nothing else runs yet.
    unsafe {
        std::env::set_var(
            "OPAQUE_ID_KEYS",
            MasterSecret::generate().expose_hex(|hex| format!("0:{hex}")),
        )
    };
    let environment = Environment::Test;
    let config = App::load_config(&environment).await.expect("a configuration");
    let boot =
        App::boot(StartMode::ServerOnly, &environment, config).await.expect("an application");
    let router = boot.router.expect("routes");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async { axum::serve(listener, router).await });
    tokio::task::spawn_blocking(move || check(&format!("http://{address}"))).await.expect("checks");
}

fn check(address: &str) {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let read = |mut answer: ureq::http::Response<ureq::Body>| -> Answer {
        let text = answer.body_mut().read_to_string().expect("a body");
        (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    };
    let get = |path: &str| read(agent.get(format!("{address}{path}")).call().expect("an answer"));
    let post = |path: &str, body: Value| {
        read(agent.post(format!("{address}{path}")).send_json(body).expect("an answer"))
    };
    let id = |answer: &Answer| answer.1["id"].as_str().expect("an id").to_owned();

    let users = ["Ada", "Grace"].map(|name| post("/users", json!({ "name": name })));
    assert_eq!(users[0].0, 200, "{users:?}");
    let [ada, grace] = users.each_ref().map(id);
    assert!(ada.starts_with("user_"));
    assert_eq!(get(&format!("/users/{ada}")), (200, json!({ "id": ada, "name": "Ada" })));

    let add = |user: &str, text: &str| post("/notes", json!({ "user_id": user, "text": text }));
    let notes = [add(&ada, "a"), add(&ada, "b"), add(&grace, "c")];
    let note = id(&notes[0]);
    assert_eq!(notes[0], (200, json!({ "id": note, "user_id": ada, "text": "a" })));
    let (_, page) = get(&format!("/notes?user={ada}&user={grace}&limit=2"));
    assert_eq!(page["notes"].as_array().map(Vec::len), Some(2), "{page}");
    let next = page["next"].as_str().expect("another page");
    let (_, page) = get(&format!("/notes?user={ada}&user={grace}&limit=2&starting_after={next}"));
    assert_eq!(page["notes"][0]["text"], "c");

    let comments = format!("/notes/{note}/comments");
    let comment = post(&comments, json!({ "user_id": grace, "text": "d" }));
    assert_eq!(get(&comments), (200, json!([comment.1])));

    for path in
        ["/users/1", &format!("/users/{note}"), &format!("/notes/{ada}/comments"), "/notes?user=1"]
    {
        let (status, answer) = get(path);
        assert_eq!((status, &answer["title"]), (404, &json!("Not Found")), "{path}");
    }
    for user in ["1", &note] {
        let (status, answer) = add(user, "e");
        assert_eq!((status, &answer["errors"][0]["pointer"]), (422, &json!("/user_id")));
    }
}
