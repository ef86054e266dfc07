//! What the examples of all frameworks share: a resource with one row, and what a client must get.

use opaque_id_core::{External, Internal, IntoModel, Keyring, MasterSecret, OpaqueId, View};

/// A model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "user", form = "tagged")]
pub struct User {
    /// The key.
    pub id: Internal<User>,
}

/// Another model.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
pub struct Team;

/// What the API shows of a user.
#[derive(Debug, serde::Serialize, View)]
#[view(from = User)]
pub struct UserView {
    id: External<User>,
}

/// What a client sends to invite a user.
#[derive(Debug, serde::Deserialize, IntoModel)]
#[model(into = Invitation)]
pub struct Invite {
    user: External<User>,
}

/// An invitation.
#[derive(Debug)]
pub struct Invitation {
    /// The user.
    pub user: Internal<User>,
}

/// The state of a server.
#[derive(Clone, Debug)]
pub struct App {
    /// The keyring.
    pub keyring: Keyring,
    user: Internal<User>,
}

impl Default for App {
    fn default() -> Self {
        let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
        Self { keyring: keyring.build().expect("a good secret"), user: Internal::generate() }
    }
}

impl App {
    /// Finds the row.
    #[must_use]
    pub fn find(&self, id: Internal<User>) -> Option<User> {
        (id == self.user).then_some(User { id })
    }

    /// Sends requests to `GET /users/{id}` and `POST /invitations` of a server, and checks the answers.
    ///
    /// # Panics
    /// If an answer is not what it must be.
    pub fn check(&self, address: &str) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A server that answers before it has read a request's body closes the connection then.
            .max_idle_connections(0)
            .build()
            .into();
        let get = |id: &str| {
            let answer = agent.get(format!("http://{address}/users/{id}")).call();
            let mut answer = answer.expect("an answer");
            let body = answer.body_mut().read_to_string().expect("a body");
            (answer.status().as_u16(), body)
        };
        let invite = |id: &str| {
            let body = format!(r#"{{"user":"{id}"}}"#);
            let post = agent.post(format!("http://{address}/invitations"));
            let answer = post.content_type("application/json").send(body);
            answer.expect("an answer").status().as_u16()
        };

        let good = self.keyring.seal(self.user).to_string();
        assert_eq!(get(&good), (200, format!(r#"{{"id":"{good}"}}"#)));
        assert_eq!(invite(&good), 200);
        let other = Self::default();
        let team = Internal::<Team>::from_key(7).expect("a key");
        let no_row = self.keyring.seal(Internal::<User>::generate());
        let not_found = get(&no_row.to_string());
        assert_eq!(not_found.0, 404);
        for id in [
            "42",
            &good.to_uppercase(),
            &self.keyring.seal(team).to_string(),
            &other.keyring.seal(other.user).to_string(),
        ] {
            assert_eq!(get(id), not_found, "{id}");
            assert_eq!(invite(id), 422, "{id}");
        }
    }
}
