"""Fields, URL converters and admin search for Django. Ids are external wherever Django shows them, and internal in the database.

```python
class UserId(IntId, prefix="user"): ...

class User(models.Model):
    id = IdAutoField(UserId, primary_key=True)
```
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models

from . import ids
from ._format import InvalidId
from .ids import Id
from .keyring import Keyring


@lru_cache(maxsize=1)
def keyring() -> Keyring:
    """That of the setting `OPAQUE_ID_KEYRING`, or else of the variable `OPAQUE_ID_KEYS`."""
    return getattr(settings, "OPAQUE_ID_KEYRING", None) or Keyring.from_env()


class _Sealed:
    """Templates, URLs and the admin print ids by `str`, so that is the external id."""

    def __str__(self) -> str:
        return str(keyring().seal(self))  # type: ignore[type-var]


class IntId(_Sealed, ids.IntId):
    pass


class UuidId(_Sealed, ids.UuidId):
    pass


def opened(of: type[Id[Any]], text: str) -> Id[Any]:
    """Opens an external id, or raises `InvalidId`, which is a ValueError."""
    return keyring().open(of.parse(text))


class _IdMixin(models.Field):
    # Those of a number compare it.
    validators = ()

    def __init__(self, of: type[Id[Any]], **options: Any) -> None:
        self.of = of
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        return name, path, [self.of, *args], options

    def to_python(self, value: Any) -> Any:
        try:
            return self.get_prep_value(value)
        except InvalidId as error:
            raise ValidationError(str(error)) from None

    def get_prep_value(self, value: Any) -> Any:
        """Lookups of related rows prepare a value twice, so it remains an id."""
        value = models.Field.get_prep_value(self, value)
        if isinstance(value, str):
            return opened(self.of, value)
        if value is not None and not isinstance(value, self.of):
            raise InvalidId(f"expected a {self.of.__name__} or the text of its external id, found a {type(value).__name__}")
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        id = self.get_prep_value(value)
        if id is None or self.of.kind.is_integer or connection.vendor == "postgresql":
            return None if id is None else id.key
        return id.key.bytes

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if value is None:
            return None
        # MariaDB's functions of unsigned integers return decimals.
        return self.of(int(value) if self.of.kind.is_integer else value if isinstance(value, UUID) else UUID(bytes=bytes(value)))

    def value_to_string(self, obj: Any) -> str:
        return str(self.value_from_object(obj))


class IdField(_IdMixin):
    """A column of internal ids, stored as the Rust adapters store it."""

    def db_type(self, connection: Any) -> str:
        if not self.of.kind.is_integer:
            return {"postgresql": "uuid", "mysql": "binary(16)"}.get(connection.vendor, "blob")
        if self.of.kind.name == "u32" and connection.vendor == "mysql":
            return "integer unsigned"
        return "integer" if self.of.kind.name == "i32" or connection.vendor == "sqlite" else "bigint"

    def cast_db_type(self, connection: Any) -> str:
        """MySQL casts to other types than those of columns."""
        if self.of.kind.is_integer and connection.vendor == "mysql":
            return "unsigned integer" if self.of.kind.name == "u32" else "signed integer"
        return self.db_type(connection)


class IdAutoField(_IdMixin, models.BigAutoField):
    """A primary key that the database generates. Its column is a bigint: the external ids of all integers are the same."""

    def rel_db_type(self, connection: Any) -> Any:
        return models.BigIntegerField().db_type(connection)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Refuses 0 where the database would generate another number for it, as Django's own field does."""
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
    """For a ModelAdmin: an external id in the search field finds its row."""

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
        field = queryset.model._meta.pk
        try:
            return queryset.filter(pk=field.get_prep_value(search_term.strip())), False
        except ValueError:
            return super().get_search_results(request, queryset, search_term)  # type: ignore[misc]
