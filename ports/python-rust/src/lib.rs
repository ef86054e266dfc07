//! The Rust core for the Python package `opaque-id`. The package seals and opens with it if it is installed.

use opaque_id_core::Keyring;
use opaque_id_core::key::{AnyKey, Uuid};
use opaque_id_core::keyring::RuntimeResource;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A resource under the secrets of a keyring. A refusal raises ValueError, and the package explains it.
#[pyclass(frozen)]
struct Resource(RuntimeResource);

#[pymethods]
impl Resource {
    /// Creates a resource from key ids and secrets. The first secret seals.
    #[new]
    fn new(
        secrets: Vec<(u8, [u8; 32])>,
        prefix: &str,
        domain: &str,
        kind: &str,
        form: &str,
    ) -> PyResult<Self> {
        let mut secrets = secrets.into_iter();
        let (key_id, secret) = secrets.next().ok_or_else(|| refuse("no secret"))?;
        let builder = Keyring::builder().sealing(key_id, secret);
        let builder = secrets.fold(builder, |builder, (key_id, secret)| builder.opening(key_id, secret));
        let keyring = builder.build().map_err(refuse)?;
        let (kind, form) = (kind.parse().map_err(refuse)?, form.parse().map_err(refuse)?);
        RuntimeResource::new(&keyring, prefix, domain, kind, form).map(Self).map_err(refuse)
    }

    fn seal(&self, key: &Bound<'_, PyAny>) -> PyResult<String> {
        self.0.seal(read(key)?).map_err(refuse)
    }

    fn open<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyAny>> {
        let (key, _) = self.0.open(id).map_err(refuse)?;
        written(py, key)
    }

    fn seal_all(&self, keys: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        keys.iter().map(|key| self.seal(key)).collect()
    }

    fn open_all<'py>(&self, py: Python<'py>, ids: Vec<String>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        ids.iter().map(|id| self.open(py, id)).collect()
    }
}

fn refuse(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Reads a stored key in Python: an int or 16 bytes.
fn read(key: &Bound<'_, PyAny>) -> PyResult<AnyKey> {
    match key.cast::<PyBytes>() {
        Ok(bytes) => Uuid::from_slice(bytes.as_bytes()).map(AnyKey::Bytes).map_err(refuse),
        Err(_) => key.extract().map(AnyKey::Int),
    }
}

fn written(py: Python<'_>, key: AnyKey) -> PyResult<Bound<'_, PyAny>> {
    Ok(match key {
        AnyKey::Bytes(uuid) => PyBytes::new(py, uuid.as_bytes()).into_any(),
        AnyKey::Int(integer) => integer.into_pyobject(py)?.into_any(),
    })
}

#[pymodule]
fn opaque_id_rust(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Resource>()
}
