"""Fields, migrations, URLs and the admin of Django, on the database that `DATABASE_URL` names, or on SQLite."""

import os
from urllib.parse import urlsplit
from uuid import UUID

import django
import pytest
from django.conf import settings

from opaque_id import Keyring


def named(url):
    if url is None:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    parts = urlsplit(url)
    engine = "postgresql" if parts.scheme == "postgres" else "mysql"
    if engine == "mysql":
        import pymysql

        pymysql.install_as_MySQLdb()
    server = {"HOST": parts.hostname, "PORT": parts.port, "USER": parts.username, "PASSWORD": parts.password or ""}
    return {"ENGINE": f"django.db.backends.{engine}", "NAME": parts.path[1:], **server}


settings.configure(
    DATABASES={"default": named(os.environ.get("DATABASE_URL"))},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages", "django.contrib.sessions", "opaque_id.django"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    # Tables are those of the models at once, with these here, whose label is auth's.
    MIGRATION_MODULES=dict.fromkeys(["admin", "auth", "contenttypes", "sessions"]),
    OPAQUE_ID_KEYRING=Keyring.from_entries("0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23"),
    ROOT_URLCONF=__name__,
    SECRET_KEY="test",
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.db.migrations.writer import MigrationWriter  # noqa: E402
from django.db.models import Value  # noqa: E402
from django.db.models.functions import Cast, Coalesce  # noqa: E402
from django.forms import modelform_factory  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402
from django.urls import path, register_converter, reverse  # noqa: E402

from opaque_id.django import IdAutoField, IdField, IdSearch, IntId, UuidId, converter, keyring  # noqa: E402


class UserId(IntId, prefix="user", form="short"):
    pass


class OldId(IntId, prefix="old", key="u32"):
    pass


class OrderId(UuidId, prefix="order"):
    pass


class Customer(models.Model):
    id = IdAutoField(UserId, primary_key=True)
    name = models.TextField()

    class Meta:
        app_label = "auth"


class Order(models.Model):
    id = IdField(OrderId, primary_key=True)
    user = models.ForeignKey(Customer, models.CASCADE, null=True)
    old = IdField(OldId, null=True)
    replaces = models.ForeignKey("self", models.CASCADE, null=True)

    class Meta:
        app_label = "auth"


class UserAdmin(IdSearch, admin.ModelAdmin):
    search_fields = ["name"]


admin.site.register(Customer, UserAdmin)
register_converter(converter(UserId), "user_id")


def show(request, id):
    return HttpResponse(Customer.objects.get(id=id).name)


urlpatterns = [path("users/<user_id:id>", show, name="show"), path("admin/", admin.site.urls)]


def forged(id):
    return id[:-1] + ("1" if id[-1] == "0" else "0")


UUIDS = [UUID("0192c1f0-7b1e-7a35-8f00-000000000001"), UUID("0192c1f0-7b1e-7a35-8f00-000000000002")]


@pytest.fixture(scope="module", autouse=True)
def database():
    setup_test_environment()
    call_command("migrate", run_syncdb=True, verbosity=0)
    yield


def test_rows():
    ada = Customer.objects.create(name="Ada")
    assert isinstance(ada.pk, UserId) and Customer.objects.get(id=ada.id).name == "Ada"
    external = str(keyring().seal(ada.id))
    # What Django shows is the external id, and it finds the row.
    assert str(ada.pk) == external and Customer.objects.get(pk=external) == ada
    Order.objects.bulk_create(Order(id=OrderId(key), user=ada) for key in UUIDS)
    assert [order.id for order in Order.objects.filter(user=ada).order_by("-id")] == [OrderId(key) for key in reversed(UUIDS)]
    assert Order.objects.select_related("user").first().user_id == ada.id
    assert [order.user.name for order in ada.order_set.all()] == ["Ada", "Ada"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM auth_order ORDER BY id")
        stored = UUIDS if connection.vendor == "postgresql" else [key.bytes for key in UUIDS]
        assert [row[0] for row in cursor] == stored
    form = modelform_factory(Order, fields=["id", "user"])({"id": forged(external), "user": forged(external)})
    assert set(form.errors) == {"id", "user"}
    for leaked in [ada.pk.key, "1", forged(external), OrderId(UUIDS[0])]:
        with pytest.raises((ValueError, TypeError)):
            Customer.objects.get(id=leaked)


def test_expressions():
    grace = Customer.objects.create(name="Grace")
    orders = Order.objects.bulk_create(Order(id=OrderId(UUID(int=key.int + 2)), user=grace) for key in UUIDS)
    orders[0].old, orders[1].replaces = OldId(2**32 - 1), orders[0]
    Order.objects.bulk_update(orders, ["old", "replaces"])
    assert Order.objects.get(replaces__old=OldId(2**32 - 1)) == orders[1]
    old = Value(OldId(1), output_field=IdField(OldId))
    fields = {"id": IdField(OrderId), "user_id": IdField(UserId), "older": IdField(OldId)}
    casts = {f"cast_{name}": Cast(name, field) for name, field in fields.items()}
    rows = Order.objects.filter(user=grace).order_by("id").annotate(older=Coalesce("old", old)).annotate(**casts)
    found = list(rows.values_list("older", *casts))
    assert found == [(old, order.id, grace.id, old) for old, order in zip([OldId(2**32 - 1), OldId(1)], orders)]


def test_zero_is_stored_or_refused():
    def create():
        return Customer.objects.create(id=UserId(0), name="Zero")

    if connection.vendor == "mysql":
        # It would generate another number.
        with pytest.raises(ValueError, match="does not accept 0"):
            create()
    else:
        assert create() == Customer.objects.get(name="Zero")


def test_a_migration_names_the_ids_class():
    written, imports = MigrationWriter.serialize(IdAutoField(UserId, primary_key=True))
    assert written == "opaque_id.django.IdAutoField(test_django.UserId, primary_key=True)"
    assert "import test_django" in imports


def test_urls():
    ada = Customer.objects.create(name="Grace")
    address = reverse("show", args=[ada.id])
    assert address == f"/users/{keyring().seal(ada.id)}"
    assert Client().get(address).content == b"Grace"
    for wrong in [forged(address), address.upper(), f"/users/{ada.id.key}"]:
        assert Client().get(wrong).status_code == 404


def test_admin():
    from django.contrib.auth.models import User as Staff

    client = Client()
    client.force_login(Staff.objects.create_superuser("root"))
    rows = [Customer.objects.create(name=name) for name in ("Barbara", "Frances")]
    listed = client.get("/admin/auth/customer/").content.decode()
    external = str(rows[0].id)
    assert f"/admin/auth/customer/{external}/change/" in listed
    assert b"Barbara" in client.get(f"/admin/auth/customer/{external}/change/").content
    changed = client.post(f"/admin/auth/customer/{external}/change/", {"name": "Barbara L."})
    assert changed.status_code == 302 and Customer.objects.get(id=rows[0].id).name == "Barbara L."
    for term, found in [(external, "Barbara L."), (f" {external} ", "Barbara L."), ("Fran", "Frances")]:
        page = client.get("/admin/auth/customer/", {"q": term}).context["cl"].queryset
        assert [row.name for row in page] == [found]
    assert list(client.get("/admin/auth/customer/", {"q": forged(external)}).context["cl"].queryset) == []
    client.post("/admin/auth/customer/", {"action": "delete_selected", "_selected_action": external, "post": "yes"})
    assert not Customer.objects.filter(id=rows[0].id).exists()
