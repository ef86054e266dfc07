"""The internal ids of a database, and the external ids and cursors of its API."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar
from uuid import UUID

from . import _format
from ._format import FORMS, KINDS, InvalidId, InvalidKey, Kind

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_PREFIX: Final = re.compile("[a-z]([a-z0-9_]{0,61}[a-z0-9])?")

K = TypeVar("K", int, UUID)


class Id(Generic[K]):
    """An internal id. Derive from `IntId` or `UuidId`, with the values of the resource's `#[opaque_id(…)]` in Rust.

    It is neither a text nor a number, and `print` does not show its key. So it cannot reach a log or an answer unseen. `key` is the value in
    the database.
    """

    __slots__ = ("_number",)

    prefix: ClassVar[str]
    domain: ClassVar[str]
    form: ClassVar[str]
    kind: ClassVar[Kind]

    def __init_subclass__(
        cls, *, prefix: str | None = None, key: str | None = None, form: str = "text", domain: str | None = None
    ) -> None:
        super().__init_subclass__()
        if prefix is None:
            return
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):  # R1.3
            raise TypeError("prefix: expected 1 to 63 of a-z, 0-9 and _, starting with a letter and not ending with _")
        cls.prefix, cls.form = prefix, form
        cls.domain = prefix if domain is None else domain
        if not _format.utf8(cls.domain, "domain"):  # R1.4
            raise TypeError("domain: expected a text that is not empty; leave it out to use the prefix")
        kind = KINDS.get(cls.kind.name if key is None else key)
        if kind is None or kind.is_integer != cls.kind.is_integer:
            names = ", ".join(kind.name for kind in KINDS.values() if kind.is_integer == cls.kind.is_integer)
            raise TypeError(f"key: expected one of {names}")
        if form not in FORMS or not _format.has_form(kind, form):
            raise TypeError(f"form: expected one that the key {kind.name} has, found {form}")
        cls.kind = kind

    def __init__(self, key: K) -> None:
        if not hasattr(self, "prefix"):
            raise TypeError("expected a class with a prefix: class UserId(IntId, prefix=\"user\")")
        number = key.int if isinstance(key, UUID) else key
        if isinstance(key, UUID) == self.kind.is_integer or isinstance(key, bool) or not isinstance(number, int):
            raise InvalidKey(f"expected {'an int' if self.kind.is_integer else 'a uuid.UUID'}")
        if not self.kind.has(number, self.form):
            raise InvalidKey(f"expected a key of the kind {self.kind.name} that the form {self.form} has room for")
        self._number: int = number

    @property
    def key(self) -> K:
        """The value in the database."""
        return self._number if self.kind.is_integer else UUID(int=self._number)  # type: ignore[return-value]

    @classmethod
    def _of(cls, number: int) -> Self:
        """Makes an id of a key that the keyring has checked."""
        made = cls.__new__(cls)
        made._number = number
        return made

    @classmethod
    def parse(cls, text: str) -> External[Self]:
        """Reads an external id. It may still be made up: the keyring opens it."""
        return external_of(cls)(text)

    @classmethod
    def parse_cursor(cls, text: str) -> Cursor[Self]:
        return cursor_of(cls)(text)

    def __eq__(self, other: object) -> bool:
        return self._number == other._number if isinstance(other, Id) and type(other) is type(self) else NotImplemented

    def __lt__(self, other: Self) -> bool:
        return self._number < other._number if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._number))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(..)"


class IntId(Id[int]):
    """An internal id with an integer as its key: `class UserId(IntId, prefix="user", key="i32", form="short")`."""

    __slots__ = ()
    kind = KINDS["i64"]


class UuidId(Id[UUID]):
    """An internal id with a UUID as its key: `class OrderId(UuidId, prefix="order", key="ulid")`."""

    __slots__ = ()
    kind = KINDS["uuid7"]


I = TypeVar("I", bound=Id[Any])


class _Text(Generic[I]):
    """A well-formed text of a resource. `External[UserId]` is a class of its own."""

    __slots__ = ("text",)

    of: type[I]

    def __class_getitem__(cls, of: Any) -> Any:
        return _text_of(cls, of) if isinstance(of, type) else super().__class_getitem__(of)  # type: ignore[misc]

    def __init__(self, text: str) -> None:
        if not hasattr(self, "of"):
            raise TypeError(f"expected a resource: {type(self).__name__}[UserId](text)")
        if not isinstance(text, str):
            raise InvalidId("expected a text")
        _format.decode(self.of.prefix, self._form(), text)
        self.text = text

    @classmethod
    def _form(cls) -> str:
        return cls.of.form

    def _body(self) -> _format.Body:
        return _format.decode(self.of.prefix, self._form(), self.text)

    @classmethod
    def _of_body(cls, body: _format.Body) -> Self:
        return cls._of_text(_format.encode(cls.of.prefix, cls._form(), body))

    @classmethod
    def _of_text(cls, text: str) -> Self:
        """Makes an external id or cursor of a well-formed text."""
        made = cls.__new__(cls)
        made.text = text
        return made

    def __bytes__(self) -> bytes:
        """The binary form, for messages that are not for people."""
        return _format.to_bytes(self._form(), self._body())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls._of_body(_format.from_bytes(cls._form(), data))

    @classmethod
    def pattern(cls) -> str:
        """The regular expression of JSON Schema for exactly the well-formed texts. In Python, use `re.fullmatch`."""
        return _format.pattern(cls.of.prefix, cls._form())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, _Text) and type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self.text))

    def __reduce__(self) -> Any:
        return _read, (type(self).__base__, self.of, self.text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Makes `External[UserId]` a type for fields of pydantic 2 and for parameters of FastAPI."""
        return pydantic_schema(cls, lambda value: value if isinstance(value, cls) else cls(value))

    @property
    def __pydantic_serializer__(self) -> Any:
        """Lets pydantic write an id where no type announces one, such as in a dict."""
        return _serializer()


@cache
def _serializer() -> Any:
    from pydantic_core import SchemaSerializer, core_schema

    return SchemaSerializer(core_schema.any_schema(serialization=core_schema.to_string_ser_schema()))


def pydantic_schema(of: type[_Text[Any]], read: Callable[[Any], Any], write: Callable[[Any], Any] = str) -> CoreSchema:
    """The schema of the texts of `of`. Its error is the same for each refused text, and does not have its type's name."""
    from pydantic_core import PydanticCustomError, core_schema

    is_id, prefix, pattern = issubclass(of, External), of.of.prefix, of.pattern()
    described = {
        "title": f"{prefix}_{'id' if is_id else 'cursor'}",
        "description": f"{'The id of a' if is_id else 'A position in a list of'} `{prefix}`. Opaque.",
        "type": "string",
        "pattern": pattern,
        **({"x-opaque-id": prefix} if is_id else {}),
        **({"format": "uuid"} if of._form() in ("uuid", "mapped_uuid") else {}),
    }

    def validate(value: Any) -> Any:
        try:
            return read(value)
        except InvalidId:
            raise PydanticCustomError("opaque_id", "no such `{prefix}`", {"prefix": prefix}) from None

    return core_schema.no_info_plain_validator_function(
        validate,
        json_schema_input_schema=core_schema.str_schema(),
        metadata={"pydantic_js_updates": described},
        serialization=core_schema.plain_serializer_function_ser_schema(write, return_schema=core_schema.str_schema(), when_used="json"),
    )


_CLASSES: Final[dict[Any, Any]] = {}


def _text_of(base: Any, of: Any) -> Any:
    try:
        return _CLASSES[base, of]
    except KeyError:
        made = type(f"{base.__name__}[{of.__name__}]", (base,), {"__slots__": (), "__module__": of.__module__, "of": of})
        return _CLASSES.setdefault((base, of), made)


def _read(base: Any, of: Any, text: str) -> Any:
    """Reads a pickle."""
    return _text_of(base, of)(text)


def external_of(of: type[I]) -> type[External[I]]:
    """Returns `External[of]`. A type checker would accept only the name of a class there."""
    return _text_of(External, of)  # type: ignore[no-any-return]


def cursor_of(of: type[I]) -> type[Cursor[I]]:
    return _text_of(Cursor, of)  # type: ignore[no-any-return]


class External(_Text[I]):
    """An external id: the text that the outside world sees. `External[UserId](text)` and `UserId.parse(text)` read one."""

    __slots__ = ()

    @property
    def uuid(self) -> UUID:
        """The UUID of a mapped resource, to look up in its table."""
        self._check_mapped()
        return UUID(int=self._body().value)

    @classmethod
    def of_uuid(cls, uuid: UUID) -> Self:
        """The external id of a mapped resource, from the UUID in its table."""
        cls._check_mapped()
        if not isinstance(uuid, UUID):
            raise InvalidKey("expected a uuid.UUID")
        return cls._of_body(_format.Body(0, uuid.int, 128))

    @classmethod
    def _check_mapped(cls) -> None:
        if not cls.of.form.startswith("mapped"):
            raise TypeError(f"expected a mapped resource, found the form {cls.of.form}: a keyring seals and opens its ids")


class Cursor(_Text[I]):
    """The position of a row in a list. Clients cannot make one up."""

    __slots__ = ()

    @classmethod
    def _form(cls) -> str:
        return "cursor"
