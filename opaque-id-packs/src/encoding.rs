//! How values become bytes.

/// How a value of type `V` becomes bytes, and back. The name is part of the table's settings.
///
/// [`Json`] is the default: values may gain fields, and compression removes what JSON repeats. [`Raw`] is for values that are
/// bytes already.
pub trait Encoding<V>: Send + Sync + 'static {
    /// The name of the encoding.
    const NAME: &'static str;

    /// Writes a value.
    ///
    /// # Errors
    /// A message without the value.
    fn encode(value: &V) -> Result<Vec<u8>, String>;

    /// Reads a value.
    ///
    /// # Errors
    /// A message without the value.
    fn decode(bytes: Vec<u8>) -> Result<V, String>;
}

/// Values as JSON, by serde.
#[derive(Clone, Copy, Debug)]
pub enum Json {}

/// Values that are bytes.
#[derive(Clone, Copy, Debug)]
pub enum Raw {}

impl<V: serde::Serialize + serde::de::DeserializeOwned> Encoding<V> for Json {
    const NAME: &'static str = "json";

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        serde_json::to_vec(value).map_err(json_error)
    }

    fn decode(bytes: Vec<u8>) -> Result<V, String> {
        serde_json::from_slice(&bytes).map_err(json_error)
    }
}

/// Says where the error is: its message may repeat a part of the value.
fn json_error(error: serde_json::Error) -> String {
    format!(
        "expected JSON of the table's type, found {:?} error at line {}, column {}",
        error.classify(),
        error.line(),
        error.column()
    )
}

impl<V: AsRef<[u8]> + From<Vec<u8>>> Encoding<V> for Raw {
    const NAME: &'static str = "raw";

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        Ok(value.as_ref().to_owned())
    }

    fn decode(bytes: Vec<u8>) -> Result<V, String> {
        Ok(bytes.into())
    }
}
