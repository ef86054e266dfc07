"""Internal ids, which a database has, and their external ids and cursors, which the outside world sees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar, get_args
from uuid import UUID

from . import _format
from ._format import FORMS, KINDS, InvalidId, InvalidKey, Kind

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_PREFIX: Final = re.compile("[a-z]([a-z0-9_]{0,61}[a-z0-9])?")

K = TypeVar("K", int, UUID)


class Id(Generic[K]):
    """An internal id. Derive from `IntId` or `UuidId`, with the values of the resource's `#[opaque_id(…)]` in Rust.

    It is no text and no number, and it is not printed: so it does not reach a log or an answer unseen. `key` is what the database has.
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
        if not _PREFIX.fullmatch(prefix):  # R1.3
            raise TypeError("prefix: expected 1 to 63 of a-z, 0-9 and _, starting with a letter and not ending with _")
        cls.prefix, cls.form = prefix, form
        cls.domain = prefix if domain is None else domain
        if not cls.domain:  # R1.4
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
        """What the database has."""
        return self._number if self.kind.is_integer else UUID(int=self._number)  # type: ignore[return-value]

    @classmethod
    def _of(cls, number: int) -> Self:
        """Of what the keyring has checked."""
        made = cls.__new__(cls)
        made._number = number
        return made

    @classmethod
    def parse(cls, text: str) -> External[Self]:
        """Reads an external id. It may still be made up: the keyring opens it."""
        return External(cls, text)

    @classmethod
    def parse_cursor(cls, text: str) -> Cursor[Self]:
        return Cursor(cls, text)

    def __eq__(self, other: object) -> bool:
        return self._number == other._number if isinstance(other, Id) and type(other) is type(self) else NotImplemented

    def __lt__(self, other: Self) -> bool:
        return self._number < other._number if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._number))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(..)"


class IntId(Id[int]):
    """An internal id whose key is an integer: `class UserId(IntId, prefix="user", key="i32", form="short")`."""

    __slots__ = ()
    kind = KINDS["i64"]


class UuidId(Id[UUID]):
    """An internal id whose key is a UUID: `class OrderId(UuidId, prefix="order", key="ulid")`."""

    __slots__ = ()
    kind = KINDS["uuid7"]


I = TypeVar("I", bound=Id[Any])


class _Text(Generic[I]):
    """A well-formed text of a resource."""

    __slots__ = ("of", "text")

    def __init__(self, of: type[I], text: str) -> None:
        _format.decode(of.prefix, self._form(of), text)
        self.of, self.text = of, text

    @classmethod
    def _form(cls, of: type[I]) -> str:
        return of.form

    def _body(self) -> _format.Body:
        return _format.decode(self.of.prefix, self._form(self.of), self.text)

    @classmethod
    def _of_body(cls, of: type[I], body: _format.Body) -> Self:
        made = cls.__new__(cls)
        made.of, made.text = of, _format.encode(of.prefix, cls._form(of), body)
        return made

    def __bytes__(self) -> bytes:
        """The binary form, for messages that are not for people."""
        return _format.to_bytes(self._form(self.of), self._body())

    @classmethod
    def from_bytes(cls, of: type[I], data: bytes) -> Self:
        return cls._of_body(of, _format.from_bytes(cls._form(of), data))

    @classmethod
    def pattern(cls, of: type[I]) -> str:
        """The regular expression of exactly the texts that parse."""
        return _format.pattern(of.prefix, cls._form(of))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.of.__name__}, {self.text!r})"

    def __eq__(self, other: object) -> bool:
        return (type(self), self.of, self.text) == (type(other), getattr(other, "of", None), getattr(other, "text", None))

    def __hash__(self) -> int:
        return hash((self.of, self.text))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """A field or a parameter `External[UserId]` of pydantic 2, and so of FastAPI."""
        from pydantic_core import core_schema

        of = get_args(source)[0]
        form = cls._form(of)
        what = "The id of" if cls is External else "A position in a list of"
        described: dict[str, Any] = {"description": f"{what} `{of.prefix}`. Opaque.", "title": f"{of.prefix}_{'id' if cls is External else 'cursor'}"}
        if cls is External:
            described["x-opaque-id"] = of.prefix
        if form in ("uuid", "mapped_uuid"):
            described["format"] = "uuid"

        def parse(value: Any) -> _Text[I]:
            return value if isinstance(value, cls) and value.of is of else cls(of, value)

        texts = core_schema.str_schema(pattern=cls.pattern(of), metadata={"pydantic_js_updates": described})
        of_text = core_schema.no_info_after_validator_function(parse, texts)
        given = core_schema.is_instance_schema(cls)
        return core_schema.json_or_python_schema(
            json_schema=of_text,
            python_schema=core_schema.union_schema([core_schema.no_info_after_validator_function(parse, given), of_text]),
            serialization=core_schema.to_string_ser_schema(),
        )


class External(_Text[I]):
    """An external id: the text that the outside world sees of a `UserId`, say. `UserId.parse(text)` reads one."""

    __slots__ = ()

    @property
    def uuid(self) -> UUID:
        """The UUID of a mapped resource, to look up in its table."""
        if not self.of.form.startswith("mapped"):
            raise TypeError(f"expected a mapped resource, found the form {self.of.form}: the keyring opens it")
        return UUID(int=self._body().value)

    @classmethod
    def of_uuid(cls, of: type[I], uuid: UUID) -> Self:
        """The external id of a mapped resource, of what its table has."""
        if not of.form.startswith("mapped"):
            raise TypeError(f"expected a mapped resource, found the form {of.form}: the keyring seals it")
        return cls._of_body(of, _format.Body(0, uuid.int, 128))


class Cursor(_Text[I]):
    """The position of a row in a list, which nobody can make up."""

    __slots__ = ()

    @classmethod
    def _form(cls, of: type[I]) -> str:
        return "cursor"
