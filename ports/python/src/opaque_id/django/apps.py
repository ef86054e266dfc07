"""Changes the places where Django stores `str(row.pk)`. They must store the key, because a stored external id becomes invalid with its secret."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.core import checks
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.core.serializers.base import Serializer
from django.db import models
from django.db.models.fields.related_lookups import RelatedExact, RelatedIn
from django.db.models.lookups import Exact, In
from django.db.models.signals import post_init

from . import _MAILS_IDS, ObjectIdField, key_field, keys_as_text


class OpaqueId(AppConfig):
    name = "opaque_id.django"
    label = "opaque_id"

    def ready(self) -> None:
        from django.contrib.auth.tokens import PasswordResetTokenGenerator

        checks.register(check_generic_relations, "models")
        checks.register(check_composite_keys, "models")
        for owner, method in [
            # The serializers for XML do not ask the field.
            (Serializer, "serialize"),
            (models.ForeignKey, "value_to_string"),
            (PasswordResetTokenGenerator, "_make_hash_value"),
        ]:
            _wrap(owner, method, _with_keys)
        _wrap(models.ForeignKey, "clean", _with_cleaned)
        if apps.is_installed("django.contrib.auth"):
            from django.contrib.auth.forms import PasswordResetForm

            _wrap(PasswordResetForm, "save", _with_ids)
        if apps.is_installed("django.contrib.contenttypes"):
            from django.contrib.contenttypes import fields
            from django.contrib.contenttypes.fields import GenericRelation

            # Since 6.1, Django matches rows by the texts of their keys.
            owner = getattr(fields, "GenericForeignKeyDescriptor", fields.GenericForeignKey)
            _wrap(owner, "get_prefetch_querysets", _with_texts_of_keys)
            GenericRelation.register_lookup(_Exact)
            GenericRelation.register_lookup(_In)
        if apps.is_installed("django.contrib.admin"):
            from django.contrib.admin.models import LogEntry
            from django.contrib.admin.options import ModelAdmin

            object_id = LogEntry._meta.get_field("object_id")
            object_id.register_lookup(_LoggedExact)
            object_id.register_lookup(_LoggedIn)
            post_init.connect(_log_the_key, sender=LogEntry, dispatch_uid="opaque_id")
            for method in ["get_admin_url", "get_edited_object"]:
                _wrap(LogEntry, method, _with_shown_id)
            _wrap(ModelAdmin, "history_view", _with_stored_id)
        # Both work without being apps of the project.
        has_rest_framework = _has("rest_framework", "rest_framework.serializers")
        if has_rest_framework:
            from . import rest_framework

            rest_framework.register()
        if _has("django_filters", "django_filters.filterset"):
            from django_filters import CharFilter
            from django_filters.filterset import BaseFilterSet

            from . import IdAutoField, IdField

            filters = [BaseFilterSet]
            if has_rest_framework:
                from django_filters.rest_framework import FilterSet  # It has a copy.

                filters.append(FilterSet)
            for of in filters:
                of.FILTER_DEFAULTS.update(dict.fromkeys([IdAutoField, IdField], {"filter_class": CharFilter}))


def _has(app: str, module: str) -> bool:
    """Returns whether a module can be imported. A version for another Django is an error only in an app of the project."""
    try:
        import_module(module)
    except ImportError:
        if apps.is_installed(app):
            raise
        return False
    return True


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Replaces a method once."""
    method = getattr(owner, name)
    if not hasattr(method, "is_of_opaque_id"):
        wrapped: Any = wraps(method)(wrapper(method))
        wrapped.is_of_opaque_id = True
        setattr(owner, name, wrapped)


def _with_keys(method: Any) -> Any:
    def wrapper(*args: Any, **options: Any) -> Any:
        with keys_as_text():
            return method(*args, **options)

    return wrapper


def _with_ids(method: Any) -> Any:
    def wrapper(*args: Any, **options: Any) -> Any:
        token = _MAILS_IDS.set(True)
        try:
            return method(*args, **options)
        finally:
            _MAILS_IDS.reset(token)

    return wrapper


def _with_texts_of_keys(method: Any) -> Any:
    def wrapper(*args: Any, **options: Any) -> Any:
        rows, key_of_row, key, *others = method(*args, **options)
        return rows, key_of_row, _with_keys(key), *others

    return wrapper


def _with_cleaned(method: Any) -> Any:
    """Cleans a foreign key like the field that it refers to, because a client must not name a key."""

    def clean(self: Any, value: Any, model_instance: Any) -> Any:
        field = key_field(self)
        return method(self, value if field is None else field.cleaned(value), model_instance)

    return clean


class _OtherRow:
    """Prepares the other row of a generic relation. Django would use a field of this row, with ids of another resource."""

    def get_prep_lookup(self: Any) -> Any:
        prepare = self.lhs.target.get_prep_value
        if hasattr(self.rhs, "resolve_expression"):
            return super().get_prep_lookup()  # type: ignore[misc]
        if self.get_db_prep_lookup_value_is_iterable:
            return [prepare(getattr(row, "pk", row)) for row in self.rhs]
        return prepare(getattr(self.rhs, "pk", self.rhs))

    def get_db_prep_lookup(self: Any, value: Any, connection: Any) -> Any:
        prepare = self.lhs.target.get_db_prep_value
        values = value if self.get_db_prep_lookup_value_is_iterable else [value]
        return "%s", [key if hasattr(key, "as_sql") else prepare(key, connection, prepared=True) for key in values]


class _Exact(_OtherRow, RelatedExact):
    pass


class _In(_OtherRow, RelatedIn):
    pass


class _LoggedExact(Exact):
    def get_prep_lookup(self) -> Any:
        with keys_as_text():
            return super().get_prep_lookup()


class _LoggedIn(In):
    def get_prep_lookup(self) -> Any:
        with keys_as_text():
            return super().get_prep_lookup()


def _entry_field(entry: Any) -> Any:
    """The primary key of the model that an entry of the admin's log names."""
    from django.contrib.contenttypes.models import ContentType

    values = entry.__dict__
    if values.get("object_id") is None or values.get("content_type_id") is None:
        return None
    model = ContentType.objects.get_for_id(entry.content_type_id).model_class()
    return model and key_field(model._meta.pk)


def _log_the_key(instance: Any, **_: Any) -> None:
    field = _entry_field(instance)
    if field:
        with suppress(ValidationError):
            instance.object_id = str(field.to_python(instance.object_id).key)


def _with_shown_id(method: Any) -> Any:
    def wrapper(self: Any) -> Any:
        field, stored = _entry_field(self), self.object_id
        if field:
            with suppress(ValidationError):
                self.object_id = str(field.to_python(stored))
        try:
            return method(self)
        finally:
            self.object_id = stored

    return wrapper


def _with_stored_id(method: Any) -> Any:
    """Shows the history of a row by its key."""

    def history_view(self: Any, request: Any, object_id: str, *args: Any, **options: Any) -> Any:
        from django.contrib.admin.utils import quote, unquote

        field = key_field(self.opts.pk)
        if field:
            with suppress(ValidationError):
                object_id = quote(str(field.to_python(unquote(object_id)).key))
        return method(self, request, object_id, *args, **options)

    return history_view


def check_generic_relations(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Checks the column of each generic relation. Another column would store external ids, or not find its rows."""
    if not apps.is_installed("django.contrib.contenttypes"):
        return []
    from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation

    all_models = apps.get_models(include_auto_created=True)
    has_ids = any(key_field(model._meta.pk) for model in all_models)
    wrong = []
    for model in all_models if app_configs is None else [model for config in app_configs for model in config.get_models()]:
        for field in model._meta.private_fields:
            target = model
            if isinstance(field, GenericRelation) and key_field(model._meta.pk):
                target, name = field.related_model, field.object_id_field_name
            elif isinstance(field, GenericForeignKey) and has_ids:
                name = field.fk_field
            else:
                continue
            try:
                column = target._meta.get_field(name)
            except FieldDoesNotExist:
                continue  # Django checks this itself.
            is_text = isinstance(column, (models.CharField, models.TextField))
            if not isinstance(column, ObjectIdField) and (is_text or isinstance(field, GenericRelation)):
                wrong.append(field)
    return [
        checks.Error(
            "A generic relation to rows with opaque ids needs a column of their keys.",
            hint="Let its object_id be an `opaque_id.django.ObjectIdField`, or silence this check if it refers to other models only.",
            obj=field,
            id="opaque_id.E002",
        )
        for field in wrong
    ]


def check_composite_keys(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """Checks composite primary keys, because Django shows their parts unchanged."""
    all_models = apps.get_models() if app_configs is None else [model for config in app_configs for model in config.get_models()]
    return [
        checks.Error(
            "A composite primary key would show the keys of its ids.",
            hint="Use another primary key, and a UniqueConstraint over these fields.",
            obj=model,
            id="opaque_id.E003",
        )
        for model in all_models
        if len(fields := getattr(model._meta, "pk_fields", [])) > 1 and any(map(key_field, fields))
    ]
