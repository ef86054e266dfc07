"""Fields, migrations, URLs and the admin of Django."""

from uuid import UUID

import pytest
from django_project import database, rolled_back  # noqa: F401  It comes first.
from django.db import connection
from django.db.migrations.writer import MigrationWriter
from django.db.models import Value
from django.db.models.functions import Cast, Coalesce
from django.forms import modelform_factory
from django.test import Client
from django.urls import reverse

from opaque_id.django import IdAutoField, IdField, keyring
from shop.models import Customer, OldId, Order, OrderId, User, UserId


def forged(id):
    return id[:-1] + ("1" if id[-1] == "0" else "0")


UUIDS = [UUID("0192c1f0-7b1e-7a35-8f00-000000000001"), UUID("0192c1f0-7b1e-7a35-8f00-000000000002")]


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
        cursor.execute("SELECT id FROM shop_order ORDER BY id")
        stored = UUIDS if connection.vendor == "postgresql" else [key.bytes for key in UUIDS]
        assert [row[0] for row in cursor] == stored
    form = modelform_factory(Order, fields=["id", "user"])({"id": forged(external), "user": forged(external)})
    assert set(form.errors) == {"id", "user"}
    for wrong in [ada.pk.key, OrderId(UUIDS[0])]:
        with pytest.raises(ValueError):
            Customer.objects.get(id=wrong)


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
    assert written == "opaque_id.django.IdAutoField(shop.models.UserId, primary_key=True)"
    assert "import shop.models" in imports


def test_urls():
    ada = Customer.objects.create(name="Grace")
    address = reverse("show", args=[ada.id])
    assert address == f"/users/{keyring().seal(ada.id)}"
    assert Client().get(address).content == b"Grace"
    for wrong in [forged(address), address.upper(), f"/users/{ada.id.key}"]:
        assert Client().get(wrong).status_code == 404


def test_admin():
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    rows = [Customer.objects.create(name=name) for name in ("Barbara", "Frances")]
    listed = client.get("/admin/shop/customer/").content.decode()
    external = str(rows[0].id)
    assert f"/admin/shop/customer/{external}/change/" in listed
    assert b"Barbara" in client.get(f"/admin/shop/customer/{external}/change/").content
    changed = client.post(f"/admin/shop/customer/{external}/change/", {"name": "Barbara L."})
    assert changed.status_code == 302 and Customer.objects.get(id=rows[0].id).name == "Barbara L."
    for term, found in [(external, "Barbara L."), (f" {external} ", "Barbara L."), ("Fran", "Frances")]:
        page = client.get("/admin/shop/customer/", {"q": term}).context["cl"].queryset
        assert [row.name for row in page] == [found]
    assert list(client.get("/admin/shop/customer/", {"q": forged(external)}).context["cl"].queryset) == []
    client.post("/admin/shop/customer/", {"action": "delete_selected", "_selected_action": external, "post": "yes"})
    assert not Customer.objects.filter(id=rows[0].id).exists()
