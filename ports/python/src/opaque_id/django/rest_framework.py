"""Serializer fields for Django REST Framework. `opaque_id.django` registers them if there is a `rest_framework`."""

from __future__ import annotations

from typing import Any

from rest_framework import renderers, serializers

from .. import django as fields
from ..ids import External, Id


class IdField(serializers.ModelField):
    """A field for ids: `IdField(UserId)`. Its values are internal ids. A client reads and sends external ids."""

    default_error_messages = {"invalid": "Expected an id of `{prefix}`."}

    def __init__(self, of: type[Id[Any]] | None = None, *, model_field: Any = None, **options: Any) -> None:
        self.of = model_field.of if of is None else of
        super().__init__(model_field, **options)

    def get_attribute(self, instance: Any) -> Any:
        return serializers.Field.get_attribute(self, instance)

    def to_internal_value(self, data: Any) -> Any:
        try:
            return fields.opened(self.of, data)
        except ValueError:
            self.fail("invalid", prefix=self.of.prefix)

    def to_representation(self, value: Any) -> str:
        return str(value)


class RelatedField(serializers.PrimaryKeyRelatedField):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str) and not data.isprintable() and any("\ud800" <= char <= "\udfff" for char in data):
            self.fail("incorrect_type", data_type="str")  # The other error repeats the text, and no answer can contain it.
        return super().to_internal_value(data)

    def to_representation(self, value: Any) -> Any:
        shown = super().to_representation(value)
        return str(shown) if isinstance(shown, Id) else shown


class Encoder(renderers.JSONRenderer.encoder_class):
    def default(self, obj: Any) -> Any:
        return str(obj) if isinstance(obj, (Id, External)) else super().default(obj)


def register() -> None:
    serializer = serializers.ModelSerializer
    serializer.serializer_field_mapping.update(dict.fromkeys([fields.IdField, fields.IdAutoField], IdField))
    if serializer.serializer_related_field is serializers.PrimaryKeyRelatedField:
        serializer.serializer_related_field = RelatedField
    if not issubclass(renderers.JSONRenderer.encoder_class, Encoder):
        renderers.JSONRenderer.encoder_class = Encoder
