//! The Rust core for the Python package `opaque-id`, which seals and opens by it if it is installed.

use opaque_id_core::Keyring;
use opaque_id_core::form::{SealedFormOf, Short, Tagged, Text, UuidForm};
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::RuntimeResource;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A resource under the secrets of a keyring. What it refuses raises ValueError, and the package says why.
#[pyclass(frozen)]
struct Resource(Box<dyn Operations>);

#[pymethods]
impl Resource {
    /// Of key ids and secrets, of which the first seals.
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
        of(&keyring, prefix, domain, kind, form).map(Self)
    }

    fn seal(&self, key: &Bound<'_, PyAny>) -> PyResult<String> {
        self.0.seal(key)
    }

    fn open<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyAny>> {
        self.0.open(py, id)
    }

    fn seal_all(&self, keys: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        keys.iter().map(|key| self.0.seal(key)).collect()
    }

    fn open_all<'py>(&self, py: Python<'py>, ids: Vec<String>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        ids.iter().map(|id| self.0.open(py, id)).collect()
    }
}

fn refuse(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn of(
    keyring: &Keyring,
    prefix: &str,
    domain: &str,
    kind: &str,
    form: &str,
) -> PyResult<Box<dyn Operations>> {
    macro_rules! of {
        ($($kind:literal $form:literal: $key:ty, $as:ty;)*) => {
            match (kind, form) {
                $(($kind, $form) => {
                    Box::new(RuntimeResource::<$key, $as>::new(keyring, prefix, domain).map_err(refuse)?)
                })*
                _ => return Err(refuse("no such key and form")),
            }
        };
    }
    Ok(of! {
        "uuid7" "text": Uuid7, Text;
        "uuid7" "tagged": Uuid7, Tagged;
        "uuid7" "uuid": Uuid7, UuidForm;
        "ulid" "text": Ulid, Text;
        "ulid" "tagged": Ulid, Tagged;
        "structured" "text": StructuredKey, Text;
        "structured" "tagged": StructuredKey, Tagged;
        "structured" "uuid": StructuredKey, UuidForm;
        "uuid" "text": Uuid, Text;
        "uuid" "tagged": Uuid, Tagged;
        "i64" "text": i64, Text;
        "i64" "short": i64, Short;
        "i64" "uuid": i64, UuidForm;
        "i32" "text": i32, Text;
        "i32" "short": i32, Short;
        "i32" "uuid": i32, UuidForm;
        "u32" "text": u32, Text;
        "u32" "short": u32, Short;
        "u32" "uuid": u32, UuidForm;
    })
}

trait Operations: Send + Sync {
    fn seal(&self, key: &Bound<'_, PyAny>) -> PyResult<String>;
    fn open<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyAny>>;
}

impl<K: Key<Repr: Stored>, F: SealedFormOf<K>> Operations for RuntimeResource<K, F> {
    fn seal(&self, key: &Bound<'_, PyAny>) -> PyResult<String> {
        let repr = Stored::read(key)?;
        K::check(repr).map_err(refuse)?;
        Self::seal(self, K::from_checked(repr)).map_err(refuse)
    }

    fn open<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Bound<'py, PyAny>> {
        let (key, _) = Self::open(self, id).map_err(refuse)?;
        key.into_repr().write(py)
    }
}

/// What is stored, in Python: an int, or 16 bytes.
trait Stored: Copy {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self>;
    fn write(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

macro_rules! stored {
    ($($integer:ty)*) => {$(
        impl Stored for $integer {
            fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
                value.extract()
            }

            fn write(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
                Ok(self.into_pyobject(py)?.into_any())
            }
        }
    )*};
}

stored! { i64 i32 u32 }

impl Stored for Uuid {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::from_slice(value.extract()?).map_err(refuse)
    }

    fn write(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(PyBytes::new(py, self.as_bytes()).into_any())
    }
}

#[pymodule]
fn opaque_id_rust(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Resource>()
}
