"""Fields, URL converters and admin search for Django. DJANGO.md has the guide.

An id is external wherever Django shows it. It is a key wherever Django stores it, because a stored id must survive its secret.

```python
class UserId(IntId, prefix="user"): ...

class User(models.Model):
    id = IdAutoField(UserId, primary_key=True)
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from uuid import UUID

from django import forms
from django.apps import apps as registry  # `apps` is a module here.
from django.conf import settings
from django.core import checks
from django.core.exceptions import EmptyResultSet, ImproperlyConfigured, ValidationError
from django.core.signals import setting_changed
from django.db import models
from django.dispatch import receiver

from .. import ids
from .._format import InvalidId
from ..ids import External, Id
from ..keyring import Keyring

# The lookups that compare whole ids. The lookups for texts would compare the key with parts that a client guesses.
LOOKUPS = frozenset(["exact", "in", "gt", "gte", "lt", "lte", "range", "isnull"])
_WRITES_KEYS = ContextVar("writes_keys", default=False)
_MAILS_IDS = ContextVar("mails_ids", default=False)


@lru_cache(maxsize=1)
def keyring() -> Keyring:
    """The keyring of the setting `OPAQUE_ID_KEYRING`, or else of the variable `OPAQUE_ID_KEYS`."""
    found = getattr(settings, "OPAQUE_ID_KEYRING", None)
    if found is not None and not isinstance(found, Keyring):
        raise ImproperlyConfigured(f"OPAQUE_ID_KEYRING: expected a Keyring, such as Keyring.from_file(path), found a {type(found).__name__}")
    return found or Keyring.from_env()


@receiver(setting_changed)
def _forget(*, setting: str, **_: Any) -> None:
    """Forgets the keyring when a test overrides the setting."""
    if setting == "OPAQUE_ID_KEYRING":
        keyring.cache_clear()


@contextmanager
def keys_as_text() -> Iterator[None]:
    """Lets `str` return the keys of ids, around code that stores `str(row.pk)`."""
    token = _WRITES_KEYS.set(True)
    try:
        yield
    finally:
        _WRITES_KEYS.reset(token)


class _Sealed:
    """Returns the external id, because templates, URLs and the admin print ids by `str`."""

    def __str__(self) -> str:
        return str(self.key if _WRITES_KEYS.get() else keyring().seal(self))  # type: ignore[attr-defined, type-var]

    def __hash__(self) -> int:
        """Returns the hash of the key, because an `IntKey` or a `UuidKey` is equal to the id of its row."""
        return hash(self.key)  # type: ignore[attr-defined]


class IntId(_Sealed, ids.IntId):
    pass


class UuidId(_Sealed, ids.UuidId):
    pass


def opened(of: type[Id[Any]], text: str) -> Id[Any]:
    """Opens an external id, or raises `InvalidId`."""
    return keyring().open(of.parse(text))


class IntKey:
    """The stored key of a generic relation's row. The content type names its resource. `repr` hides the key."""

    def __init__(self, key: int) -> None:
        self.key = key

    def __int__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return self.key == getattr(other, "key", other) if isinstance(other, (IntKey, Id, int)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return "IntKey(..)"

    def __str__(self) -> str:
        return str(self.key) if _WRITES_KEYS.get() else repr(self)


class UuidKey(UUID):
    """The same as `IntKey`, for UUIDs."""

    @property
    def key(self) -> UUID:
        return UUID(int=self.int)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other.key if isinstance(other, Id) else other)

    __hash__ = UUID.__hash__

    def __repr__(self) -> str:
        return "UuidKey(..)"

    def __str__(self) -> str:
        return str(self.key) if _WRITES_KEYS.get() else repr(self)


class _NoRow:
    """The value of a lookup by a text that opens to no id. `In` removes it in the same way as `None`."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, _NoRow)

    def __hash__(self) -> int:
        return hash(None)


class IdFormField(forms.CharField):
    def __init__(self, *, of: type[Id[Any]], **options: Any) -> None:
        self.of = of
        super().__init__(**options)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, self.of):
            return value
        text = super().to_python(value)
        return validated(self.of, text) if text else None


def validated(of: type[Id[Any]], text: str) -> Id[Any]:
    """Opens an external id, or raises a `ValidationError`. The error is the same for each refused text."""
    try:
        return opened(of, text)
    except InvalidId:
        raise ValidationError("Expected an id of `%(prefix)s`.", code="invalid", params={"prefix": of.prefix}) from None


class _IdMixin(models.Field):
    # Those of a number compare it.
    validators = ()
    # A missing id is `None`. The database refuses it.
    empty_strings_allowed = False

    def __init__(self, of: type[Id[Any]], **options: Any) -> None:
        if not isinstance(of, type) or not issubclass(of, _Sealed):
            raise TypeError("expected a class of ids that derives from IntId or UuidId of opaque_id.django, whose ids print as external ids")
        self.of = of
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, [self.of, *args], options

    def check(self, **options: Any) -> Any:
        return [*super().check(**options), *_check_app(self)]

    def get_lookups(self) -> dict[str, Any]:
        own = type(self).__dict__.get("class_lookups", {})
        return {name: lookup for name, lookup in super().get_lookups().items() if name in LOOKUPS or name in own}

    def _of_key(self, key: Any) -> Id[Any]:
        """Makes an id of a key that a database or `value_to_string` wrote."""
        if self.of.kind.is_integer:
            return self.of(int(key))
        if isinstance(key, (str, int)):
            return self.of(UUID(str(key)))
        return self.of(key if isinstance(key, UUID) else UUID(bytes=bytes(key)))

    def to_python(self, value: Any) -> Any:
        """Makes an id of an external id, or of the key in a session or a fixture. `clean` is for values of clients."""
        if value is None or isinstance(value, (self.of, IntKey, UuidKey)):
            # Django compares the keys of generic relations with ids of several resources. It passes all of them to the field of one.
            return value
        try:
            if isinstance(value, str):
                try:
                    # The admin reads texts such as `_22` in an address as another character.
                    return opened(self.of, re.sub(r"[^\w-]", lambda found: f"_{ord(found[0]):02X}", value))
                except InvalidId:
                    pass
            if isinstance(value, (str, int, UUID)) and not isinstance(value, bool):
                return self._of_key(value)
        except (ValueError, TypeError):
            pass
        raise ValidationError("Expected an id of `%(prefix)s`.", code="invalid", params={"prefix": self.of.prefix})

    def clean(self, value: Any, model_instance: Any) -> Any:
        return super().clean(self.cleaned(value), model_instance)

    def cleaned(self, value: Any) -> Any:
        """Refuses keys, because a client must not name one."""
        return validated(self.of, value if isinstance(value, str) else "") if isinstance(value, (str, int, UUID)) else value

    def get_prep_value(self, value: Any) -> Any:
        """Returns an id, because lookups of related rows prepare a value twice."""
        value = models.Field.get_prep_value(self, value)
        if isinstance(value, (str, External)):
            try:
                return opened(self.of, str(value))
            except InvalidId:
                return _NoRow()
        if isinstance(value, (IntKey, UuidKey)):
            return self._of_key(value.key)
        if value is not None and not isinstance(value, (self.of, _NoRow)):
            raise InvalidId(f"expected a {self.of.__name__} or the text of its external id, found a {type(value).__name__}")
        return value

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        """Refuses a raw key, and a text that opens to no id."""
        return value if hasattr(value, "as_sql") else self.get_db_prep_value(self.get_prep_value(value), connection, prepared=False)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Also accepts a raw key, because `prefetch_related` over a many-to-many relation passes the key of a column."""
        if value is not None and not isinstance(value, Id):
            is_raw = not isinstance(value, (str, bool)) and isinstance(value, int if self.of.kind.is_integer else (UUID, bytes, memoryview))
            value = self._of_key(value) if is_raw and not isinstance(value, UuidKey) else self.get_prep_value(value)
        if isinstance(value, _NoRow):
            if prepared:
                raise EmptyResultSet
            raise InvalidId(f"expected the text of an external {self.of.__name__}, found one that does not open")
        key = None if value is None else value.key if prepared else self.get_prep_value(value).key
        return key.bytes if isinstance(key, UUID) and connection.vendor != "postgresql" else key

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, str) and not self.of.kind.is_integer:
            raise InvalidId(f"{self}: expected 16 bytes, found a text: convert the column of a UUIDField by DJANGO.md")
        # MariaDB's functions return decimals for unsigned integers.
        return self._of_key(value)

    def value_to_string(self, obj: Any) -> str:
        """Returns the key for sessions and fixtures, because these are stored, and for the address of a password reset."""
        if _MAILS_IDS.get():
            return str(self.value_from_object(obj))
        with keys_as_text():
            return str(self.value_from_object(obj))

    def formfield(self, **options: Any) -> Any:
        return super().formfield(**{"form_class": IdFormField, "of": self.of, **options})


class IdField(_IdMixin):
    """A column of internal ids, with the representation of the Rust adapters."""

    def db_type(self, connection: Any) -> str:
        if not self.of.kind.is_integer:
            return {"postgresql": "uuid", "mysql": "binary(16)"}.get(connection.vendor, "blob")
        if self.of.kind.name == "u32" and connection.vendor == "mysql":
            return "integer unsigned"
        return "integer" if self.of.kind.name == "i32" or connection.vendor == "sqlite" else "bigint"

    def cast_db_type(self, connection: Any) -> str:
        """Returns the type for casts. MySQL casts to other types than its columns have."""
        if self.of.kind.is_integer and connection.vendor == "mysql":
            return "unsigned integer" if self.of.kind.name == "u32" else "signed integer"
        return self.db_type(connection)


class ObjectIdField(IdField):
    """The `object_id` of a `GenericForeignKey`: a column of keys, of integers or of UUIDs.

    Its rows may refer to models with ids of `IntId` (or with Django's integers), or to those of `UuidId`.
    """

    def __init__(self, of: type[Id[Any]] = IntId, **options: Any) -> None:
        super().__init__(of, **{"editable": False, **options})

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return self.to_python(bytes(value) if isinstance(value, memoryview) else value)

    def to_python(self, value: Any) -> Any:
        if value is None or isinstance(value, (Id, IntKey, UuidKey)):
            return value
        if self.of.kind.is_integer:
            return IntKey(int(value))
        return UuidKey(bytes=value) if isinstance(value, bytes) else UuidKey(str(value))

    cleaned = to_python

    def get_prep_value(self, value: Any) -> Any:
        key = value.key if isinstance(value, (Id, IntKey, UuidKey)) else value
        if key is not None and (isinstance(key, bool) or not isinstance(key, int if self.of.kind.is_integer else UUID)):
            raise InvalidId(f"{self.name}: expected the `pk` of a row whose key is {'an integer' if self.of.kind.is_integer else 'a UUID'}")
        return key

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        key = self.get_prep_value(value)
        return key if key is None or self.of.kind.is_integer or connection.vendor == "postgresql" else key.bytes

    def value_to_string(self, obj: Any) -> str:
        return str(self.get_prep_value(self.value_from_object(obj)))


class IdAutoField(_IdMixin, models.BigAutoField):
    """A primary key that the database generates. Its column is a bigint: the external ids of all integers are the same."""

    def __init__(self, of: type[IntId], **options: Any) -> None:
        super().__init__(of, **options)
        if not self.of.kind.is_integer:
            raise TypeError("expected a class of ids that derives from IntId, because the database generates integers")

    def rel_db_type(self, connection: Any) -> Any:
        return models.BigIntegerField().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Refuses 0 where the database would generate another number for it. Django's own field does the same."""
        key = super().get_db_prep_value(value, connection, prepared)
        return key if prepared else connection.ops.validate_autopk_value(key)


def converter(of: type[Id[Any]]) -> type[Any]:
    """A path converter: `register_converter(converter(UserId), "user_id")`, and `path("users/<user_id:id>", show)`.

    A made-up id is 404, as the path of no view is.
    """

    class Converter:
        regex = ids.external_of(of).pattern()[1:-1]

        def to_python(self, value: str) -> Id[Any]:
            return opened(of, value)

        def to_url(self, value: Id[Any] | str) -> str:
            return str(value)

    return Converter


class IdSearch:
    """A mixin for a ModelAdmin: an external id in the search field finds its row."""

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
        field = key_field(queryset.model._meta.pk)
        try:
            if field is not None:
                return queryset.filter(pk=opened(field.of, search_term.strip())), False
        except InvalidId:
            pass
        return super().get_search_results(request, queryset, search_term)  # type: ignore[misc]


def key_field(field: Any) -> _IdMixin | None:
    """The field of ids that a field is or refers to, also through the parents of a model."""
    while isinstance(field, models.ForeignKey):
        field = field.target_field
    return field if isinstance(field, _IdMixin) and not isinstance(field, ObjectIdField) else None


def _check_app(field: Any) -> list[checks.CheckMessage]:
    if registry.is_installed("opaque_id.django"):
        return []
    return [checks.Error("`opaque_id.django` is not installed.", hint="Add it to INSTALLED_APPS.", obj=field, id="opaque_id.E001")]
