"""The places of DJANGO.md: an id is external where Django shows it, and a key where Django stores it."""

import json
import os
import pickle
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from uuid import UUID

import pytest
from django_project import database, rolled_back, settings  # noqa: F401  It comes first.
from django.contrib.admin.models import LogEntry
from django.contrib.auth.forms import PasswordResetForm
from django.contrib.auth.models import Group
from django.contrib.auth.tokens import default_token_generator
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.core import mail, serializers
from django.core.exceptions import FieldError, ImproperlyConfigured, ValidationError
from django.core.management import call_command
from django.db import connection, models, transaction
from django.db.models import Q, prefetch_related_objects
from django.forms import modelform_factory
from django.shortcuts import get_object_or_404
from django.test import Client, override_settings
from django.test.utils import register_lookup
from django.utils.http import urlsafe_base64_decode
from shop.models import Book, Customer, Manager, Note, Order, OrderId, Part, PartId, Scan, Shelf, User, UserId
from shop.urls import BookFilter, RestFilter

import opaque_id
from opaque_id import Keyring
from opaque_id.django import IdAutoField, IdField, apps, keyring

OLD = "0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23"
NEW = "1:e0eb4da52f6b2f55de21fe63c1058a2456d8ed7a8137ec1735991985ddef728b"
BEFORE, MOVED, RETIRED = OLD, f"{NEW},{OLD}", NEW
MADE_UP = ["book_00000000000000000000000000", "junk", "1", "", "staff_00000000000000000000000000"]


def secrets(entries):
    return override_settings(OPAQUE_ID_KEYRING=Keyring.from_entries(entries))


@pytest.fixture
def ada():
    return User.objects.create_superuser("ada", "ada@example.com", "secret")


@pytest.fixture
def book(ada):
    book = Book.objects.create(title="Notes", author=ada)
    book.readers.add(ada)
    return book


def raw(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] for row in cursor]


def test_prefetching_many_to_many(ada, book):
    ada.groups.add(Group.objects.create(name="staff"))
    assert [len(user.groups.all()) for user in User.objects.prefetch_related("groups")] == [1]
    assert [list(group.user_set.all()) for group in Group.objects.prefetch_related("user_set")] == [[ada]]
    assert [list(book.readers.all()) for book in Book.objects.prefetch_related("readers")] == [[ada]]
    assert [list(user.reads.all()) for user in User.objects.prefetch_related("reads")] == [[book]]
    wheel, car = Part.objects.create(), Part.objects.create()
    car.uses.set([wheel])
    assert [list(part.uses.all()) for part in Part.objects.prefetch_related("uses").order_by("pk")] == [[], [wheel]]
    assert [list(part.users.all()) for part in Part.objects.prefetch_related("users").order_by("pk")] == [[car], []]


def test_generic_relations(book):
    shelf, part = Shelf.objects.create(), Part.objects.create()
    notes = [Note.objects.create(target=book, text="a"), Note.objects.create(target=shelf), book.notes.create(text="b")]
    scan = Scan.objects.create(target=part)
    assert raw("SELECT object_id FROM shop_note ORDER BY id") == [book.pk.key, shelf.pk, book.pk.key]
    for entries in [BEFORE, MOVED, RETIRED]:
        with secrets(entries):
            assert [note.target for note in Note.objects.order_by("pk")] == [book, shelf, book]
            assert [note.target for note in Note.objects.order_by("pk").prefetch_related("target")] == [book, shelf, book]
            assert list(book.notes.order_by("pk")) == [notes[0], notes[2]]
            assert Book.objects.filter(notes__text="b").get() == Book.objects.filter(notes=notes[0]).get() == book
            assert Book.objects.filter(notes__in=notes[:1]).get() == book
            assert Note.objects.filter(book=book).count() == 2 == Note.objects.filter(object_id=book.pk, text__in="ab").count()
            assert not Book.objects.filter(notes=notes[1]) and not Book.objects.exclude(notes__isnull=False)
            assert Scan.objects.get().target == part and Part.objects.filter(scans=scan).get() == part
            assert [len(part.scans.all()) for part in Part.objects.prefetch_related("scans")] == [1]
            of_both = [Book.objects.get(), Shelf.objects.get()]
            prefetch_related_objects(of_both, "notes")
            assert [len(row.notes.all()) for row in of_both] == [2, 1]
    stored = Note.objects.order_by("pk").first().object_id
    assert stored == book.pk and hash(stored) == hash(book.pk)
    assert str(book.pk.key) not in f"{stored} {stored!r}" and str(part.pk.key) not in str(Scan.objects.get().object_id)
    for wrong in [str(book.pk), str(book.pk.key), part.pk]:
        with pytest.raises(ValueError):
            Note.objects.filter(object_id=wrong).first()
    book.delete()
    assert list(Note.objects.all()) == [notes[1]]


def test_other_columns_of_generic_relations_are_refused(monkeypatch):
    assert apps.check_generic_relations(None) == []
    monkeypatch.setattr(Note._meta.get_field("object_id"), "__class__", models.CharField)
    found = apps.check_generic_relations(None)
    assert [(error.id, str(error.obj)) for error in found] == [("opaque_id.E002", "shop.Note.target"), ("opaque_id.E002", "shop.Book.notes")]
    assert "ObjectIdField" in found[0].hint


def test_a_composite_key_of_ids_is_refused(monkeypatch):
    assert apps.check_composite_keys(None) == []
    monkeypatch.setattr(Book._meta, "pk_fields", [Book._meta.get_field("author"), Book._meta.get_field("title")])
    assert [(error.id, error.obj) for error in apps.check_composite_keys(None)] == [("opaque_id.E003", Book)]


def test_a_setting_that_is_no_keyring():
    with override_settings(OPAQUE_ID_KEYRING=OLD), pytest.raises(ImproperlyConfigured, match="expected a Keyring.*found a str"):
        keyring()


def test_a_column_of_texts_is_refused():
    part = Part.objects.create()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("UPDATE shop_part SET id = lower(hex(id))")
        with pytest.raises(opaque_id.InvalidId, match=r"shop.Part.id: .* a UUIDField"):
            Part.objects.get()
        with pytest.raises(opaque_id.InvalidId, match="a UUIDField"):
            # This field has no model.
            IdField(PartId).from_db_value("0" * 32, None, connection)
    assert Note().object_id is None and IdField(PartId).get_default() is None and part.pk


def test_a_project_without_the_app_is_refused():
    call_command("check")
    installed = [app for app in settings.INSTALLED_APPS if app != "opaque_id.django"]
    with override_settings(INSTALLED_APPS=installed):
        assert [error.id for error in Book._meta.pk.check()] == ["opaque_id.E001"]


def test_a_made_up_id_finds_no_row(ada, book):
    for text in MADE_UP:
        with pytest.raises(Exception, match="No Book matches"):
            get_object_or_404(Book, pk=text)
        assert Client().get("/book", {"id": text}).status_code == 404
        assert not Book.objects.filter(author_id=text) and not Book.objects.filter(author=text) and not Book.objects.filter(readers=text)
        assert not Book.objects.filter(pk__in=[text]) and not Book.objects.filter(pk__gt=text) and not Book.objects.filter(pk__range=(text, book.pk))
        # The other rows are still found.
        assert Book.objects.filter(pk__in=[text, str(book.pk)]).get() == Book.objects.filter(Q(pk=text) | Q(title="Notes")).get() == book
        assert Book.objects.filter(author__in=[text, ada]).get() == Book.objects.exclude(pk=text).get() == book
        assert Book.objects.exclude(author_id__in=[text]).get() == book and not Book.objects.exclude(pk__in=[text, book.pk])
        assert Book.objects.filter(pk=text).update(title="x") == 0 == Book.objects.filter(pk=text).delete()[0]
        # It is not stored.
        for store in [lambda: Book(author_id=text or "x").save(), lambda: Book.objects.update(author_id=text or "x"), lambda: Order(id=text).save()]:
            with pytest.raises(ValueError), transaction.atomic():
                store()
    assert Book.objects.get(author_id=str(ada.pk), pk__lte=str(book.pk)) == book
    assert Book.objects.get(pk=keyring().seal(book.pk)) == book


def test_a_client_cannot_name_a_key(ada, book):
    for key in [ada.pk.key, str(ada.pk.key)]:
        wrong = Book(author_id=key, title="x")
        with pytest.raises(ValidationError, match="Expected an id of `staff`"):
            wrong.full_clean()
        with pytest.raises(ValueError), transaction.atomic():
            wrong.save()
        book.author_id = key
        with pytest.raises(ValueError), transaction.atomic():
            Book.objects.bulk_update([book], ["author"])
        assert set(modelform_factory(Book, fields=["title", "author"])({"title": "x", "author": key}).errors) == {"author"}
    key = str(UUID(int=7 << 76 | 2 << 62))
    with pytest.raises(ValidationError) as raised:
        Order(id=key, old="1").full_clean(exclude=["replaces", "user"])
    assert set(raised.value.error_dict) == {"id", "old"}
    form = modelform_factory(Order, fields=["id", "old"])
    for data in [{"id": key, "old": "1"}, {"id": "junk", "old": "old_x"}]:
        errors = form(data).errors
        assert errors == {"id": ["Expected an id of `order`."], "old": ["Expected an id of `old`."]}
    saved = form({"id": str(keyring().seal(OrderId(UUID(key)))), "old": ""}).save()
    assert saved.old is None and not form({"id": str(keyring().seal(saved.id)), "old": ""}, instance=saved).has_changed()


@pytest.mark.parametrize("lookup", "contains icontains startswith istartswith endswith iendswith iexact regex iregex year date".split())
def test_a_key_is_not_compared_as_text(lookup):
    for model, name in [(Book, "pk"), (Book, "author__id"), (Book, "author"), (Part, "pk"), (Note, "object_id"), (Order, "old")]:
        with pytest.raises(FieldError):
            model.objects.filter(**{f"{name}__{lookup}": "4"})


def test_an_own_lookup():
    class Different(models.lookups.Exact):
        lookup_name = "ne"

        def get_rhs_op(self, connection, rhs):
            return f"<> {rhs}"

    parts = [Part.objects.create(), Part.objects.create()]
    with register_lookup(IdField, Different):
        assert Part.objects.filter(pk__ne=parts[0].pk).get() == parts[1]


@pytest.mark.parametrize("model", [User, Manager])
def test_sessions(model):
    with override_settings(AUTH_USER_MODEL=f"shop.{model.__name__}"):
        user = model.objects.create_user("grace", password="secret")
        client = Client()
        assert client.login(username="grace", password="secret")
        assert Session.objects.get().get_decoded()["_auth_user_id"] == str(user.pk.key)
        for entries in [MOVED, RETIRED]:
            with secrets(entries):
                assert client.get("/own").content == b"grace"
        # A value in a session is stored, so it is no id.
        with pytest.raises(TypeError):
            session = client.session
            session["cart"] = [user.pk]
            session.save()


def test_password_resets(ada):
    with override_settings(EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend"):
        form = PasswordResetForm({"email": ada.email})
        assert form.is_valid()
        form.save(domain_override="example.com")
    uid, token = re.search(r"/reset/([^/]+)/([^/]+)/", mail.outbox.pop().body).groups()
    assert urlsafe_base64_decode(uid).decode() == str(ada.pk)
    with secrets(MOVED):
        assert default_token_generator.check_token(ada, token)
        assert Client().get(f"/reset/{uid}/{token}/").status_code == 302
    with secrets(RETIRED):
        # The address has an external id, because a mail is shown.
        answer = Client().get(f"/reset/{uid}/{token}/")
        assert answer.status_code == 200 and not answer.context["validlink"]
    assert not default_token_generator.check_token(User.objects.create(username="b", password=ada.password, email=ada.email), token)


def test_the_log_of_the_admin(ada, book):
    client = Client()
    client.force_login(ada)
    address = f"/admin/shop/book/{book.pk}"
    data = {"title": "Changed", "author": str(ada.pk), "readers": [str(ada.pk)]}
    assert client.post(f"{address}/change/", data).status_code == 302
    with secrets(MOVED):
        assert client.post(f"{address}/change/", {**data, "title": "Again", "readers": [str(ada.pk)]}).status_code == 302
    with secrets(RETIRED):
        address = f"/admin/shop/book/{book.pk}"
        assert len(client.get(f"{address}/history/").context["action_list"]) == 2
        listed = client.get("/admin/").content.decode()
        assert str(book.pk).replace("_", "_5F") in listed and f"/book/{book.pk.key}/" not in listed
        assert client.get(LogEntry.objects.first().get_admin_url()).context["original"] == book
        assert LogEntry.objects.first().get_edited_object() == book
        assert LogEntry.objects.filter(object_id=book.pk).count() == LogEntry.objects.filter(object_id__in=[book.pk]).count() == 2
        client.post("/admin/shop/book/", {"action": "delete_selected", "_selected_action": str(book.pk), "post": "yes"})
    assert set(raw("SELECT object_id FROM django_admin_log")) == {str(book.pk.key)} and LogEntry.objects.count() == 3


def test_addresses_of_the_admin_with_digits_that_it_unquotes(ada):
    keys = [key for key in range(1, 2000) if str(UserId(key))[5:7] in ("22", "23", "24", "25", "26", "40")][:6]
    client = Client()
    client.force_login(ada)
    for key in keys:
        row = Customer.objects.create(id=UserId(key), name="Ada")
        assert client.get(f"/admin/shop/customer/{row.pk}/change/").status_code == 200, str(row.pk)
    assert len(keys) == 6
    # An address from before the change of the field.
    assert client.get(f"/admin/shop/customer/{keys[0]}/change/").status_code == 200


def test_a_class_that_is_no_field():
    for field, of in [(IdField, opaque_id.IntId), (IdField, "user"), (IdField, Book), (IdAutoField, PartId)]:
        with pytest.raises(TypeError, match="expected a class of ids that derives from IntId"):
            field(of)


@pytest.mark.parametrize("format", ["json", "jsonl", "xml", "python"])
def test_fixtures(ada, book, format):
    book.notes.create(text="a")
    car, wheel = Part.objects.create(), Part.objects.create()
    car.uses.add(wheel)
    Order.objects.create(id=OrderId(wheel.pk.key), user=Customer.objects.create(name="c"))
    rows = [*User.objects.all(), *Customer.objects.all(), *Order.objects.all(), *Book.objects.all(), *Note.objects.all(), *Part.objects.order_by("-pk")]
    dumped = serializers.serialize(format, rows)
    assert not any(str(row.pk) in str(dumped) for row in rows if not isinstance(row, Note))
    for model in [Note, Book, Order, Customer, Part, User]:
        model.objects.all().delete()
    with secrets(RETIRED):
        for row in serializers.deserialize(format, dumped):
            row.save()
        assert Book.objects.get(pk=book.pk).author == ada and list(Book.objects.get().readers.all()) == [ada]
        assert Note.objects.get().target == Book.objects.get() and Order.objects.get().pk.key == wheel.pk.key
        assert list(Part.objects.get(pk=car.pk).uses.all()) == [wheel]


def test_fixtures_with_plain_keys_and_external_ids(tmp_path, ada, book):
    # As Django wrote them for the keys before, and as people copy them.
    rows = [{"model": "shop.book", "pk": 7, "fields": {"title": "a", "author": ada.pk.key, "readers": [ada.pk.key]}}]
    rows.append({"model": "shop.book", "pk": str(book.pk), "fields": {"title": "b", "author": str(ada.pk)}})
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    call_command("loaddata", tmp_path / "rows.json", verbosity=0)
    assert Book.objects.get(title="a").pk.key == 7 and Book.objects.get(title="b", author=ada).pk == book.pk
    output = StringIO()
    call_command("dumpdata", "shop.Book", pks=str(book.pk), stdout=output)
    assert json.loads(output.getvalue())[0]["pk"] == str(book.pk.key)


def test_natural_keys(ada, book):
    dumped = serializers.serialize("json", Book.objects.all(), use_natural_foreign_keys=True, use_natural_primary_keys=True)
    assert json.loads(dumped)[0]["fields"]["author"] == ["ada"]
    Book.objects.all().delete()
    next(serializers.deserialize("json", dumped)).save()
    assert Book.objects.get().author == ada


def test_caches(book):
    cached = pickle.dumps(list(Book.objects.all()))
    with secrets(RETIRED):
        assert pickle.loads(cached) == [book]


def post(path, data, method="post"):
    return getattr(Client(), method)(path, data, content_type="application/json")


def test_rest_framework(ada, book):
    shown = {"id": str(book.pk), "title": "Notes", "author": str(ada.pk), "readers": [str(ada.pk)]}
    assert Client().get("/api/books/").json() == [shown] == Client().get("/json").json()
    assert Client().get("/values").json() == [{"id": str(book.pk), "author": str(ada.pk)}]
    created = post("/api/books/", {"title": "New", "author": str(ada.pk), "readers": [str(ada.pk)]})
    assert created.status_code == 201 and Book.objects.get(title="New").author == ada
    address = f"/api/books/{created.json()['id']}/"
    assert post(address, {"title": "Newer"}, "patch").json()["title"] == "Newer" == Client().get(address).json()["title"]
    assert Client().delete(address).status_code == 204 and Book.objects.count() == 1
    for text in MADE_UP[:3]:
        assert Client().get(f"/api/books/{text}/").status_code == 404
    for wrong in [*MADE_UP[:3], "\ud800", 1, ada.pk.key, True, {}, [], 1.5]:
        for field in ["author", "readers"]:
            refused = post("/api/books/", {"title": "x", field: [wrong] if field == "readers" else wrong})
            assert refused.status_code == 400 and list(refused.json()) == [field], (wrong, refused.json())
    assert "object does not exist" in str(post("/api/books/", {"title": "x", "author": "junk"}).json())
    assert Book.objects.count() == 1


def test_rest_framework_with_other_fields(ada, book):
    created = post("/api/parts/", {"id": str(Part().pk)}).json()
    assert Part.objects.get().pk == keyring().open(PartId.parse(created["id"]))
    for wrong in ["junk", "00000000-0000-7000-8000-000000000000", 1, {}]:
        assert post("/api/parts/", {"id": wrong}).json() == {"id": ["Expected an id of `part`."]}
    linked = Client().get("/api/linked/").json()
    assert linked[0]["author"].endswith(f"/api/users/{ada.pk}/")
    assert post("/api/linked/", {"title": "b", "author": linked[0]["author"]}).status_code == 201
    for text in MADE_UP[:3]:
        assert post("/api/linked/", {"title": "b", "author": f"/api/users/{text}/"}).status_code == 400
    # The pages for people, with their forms.
    assert str(ada.pk) in Client().get("/api/books/", headers={"accept": "text/html"}).content.decode()


def test_django_filter(ada, book):
    other = Book.objects.create(title="other")
    for name, value, found in [
        ("id", str(book.pk), [book]), ("id__in", f"{book.pk},{other.pk},junk", [book, other]), ("id__gt", str(book.pk), [other]),
        ("author", str(ada.pk), [book]), ("readers", str(ada.pk), [book]), ("id", "junk", []), ("id", str(book.pk.key), []), ("id__gt", "0", []),
    ]:
        assert [row["id"] for row in Client().get("/api/books/", {name: value}).json()] == [str(row.pk) for row in found], (name, value)
    assert not BookFilter({"author": "junk"}, Book.objects.all()).is_valid()
    # That of REST framework has other defaults.
    for text, found in [(str(book.pk), [book]), ("1", []), ("junk", [])]:
        assert list(RestFilter({"id": text}, Book.objects.all()).qs) == found


def test_the_log_does_not_ask_for_each_content_type(ada, book):
    LogEntry.objects.log_actions(ada.pk, Book.objects.all(), 2)
    ContentType.objects.get_for_model(Book)
    with connection.execute_wrapper(lambda execute, *args: counted.append(1) or execute(*args)):
        counted = []
        assert len(LogEntry.objects.all()) == 1 == len(counted)


def test_the_page_names_these_tests():
    folder = Path(__file__).parent
    sources = "".join((folder / name).read_text() for name in ["test_django.py", "test_django_places.py"])
    names = set(re.findall(r"`(test_\w+)`", (folder.parent / "DJANGO.md").read_text()))
    assert len(names) > 15 and all(f"def {name}(" in sources for name in names)


def test_rest_framework_and_django_filter_that_are_no_apps():
    program = """
import django
from django.conf import settings
from opaque_id import Keyring
settings.configure(INSTALLED_APPS=["opaque_id.django"], OPAQUE_ID_KEYRING=Keyring.generate())
django.setup()

from django.db import models
from django_filters import CharFilter, FilterSet
from django_filters.rest_framework import FilterSet as RestFilterSet
from opaque_id.django import IdAutoField, IntId
from rest_framework.serializers import ModelSerializer

class BookId(IntId, prefix="book"):
    pass

class Book(models.Model):
    id = IdAutoField(BookId, primary_key=True)
    class Meta:
        app_label = "opaque_id"

class Shown(ModelSerializer):
    class Meta:
        model, fields = Book, "__all__"

assert Shown(Book(id=BookId(7))).data["id"].startswith("book_")
for of in [FilterSet, RestFilterSet]:
    assert of.FILTER_DEFAULTS[IdAutoField]["filter_class"] is CharFilter
"""
    source = Path(__file__).parent.parent / "src"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(source)})


@pytest.mark.parametrize("is_app", [False, True])
def test_a_rest_framework_for_another_django_matters_only_as_an_app(tmp_path, is_app):
    broken = tmp_path / "rest_framework"
    broken.mkdir()
    (broken / "__init__.py").touch()
    (broken / "serializers.py").write_text("from django import no_longer_there")
    installed = ["rest_framework"] * is_app + ["opaque_id.django"]
    program = f"import django; from django.conf import settings; settings.configure(INSTALLED_APPS={installed}); django.setup()"
    source = Path(__file__).parent.parent / "src"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (ran.returncode, "no_longer_there" in ran.stderr) == (int(is_app), is_app), ran.stderr
