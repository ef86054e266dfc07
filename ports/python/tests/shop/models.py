from itertools import count
from uuid import UUID

from django.contrib.auth.models import AbstractUser
from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.db import models

from opaque_id.django import IdAutoField, IdField, IntId, ObjectIdField, UuidId


class UserId(IntId, prefix="user", form="short"):
    pass


class OldId(IntId, prefix="old", key="u32"):
    pass


class OrderId(UuidId, prefix="order"):
    pass


class StaffId(IntId, prefix="staff"):
    pass


class BookId(IntId, prefix="book"):
    pass


class PartId(UuidId, prefix="part"):
    pass


class Customer(models.Model):
    id = IdAutoField(UserId, primary_key=True)
    name = models.TextField()


class Order(models.Model):
    id = IdField(OrderId, primary_key=True)
    user = models.ForeignKey(Customer, models.CASCADE, null=True)
    old = IdField(OldId, null=True, blank=True)
    replaces = models.ForeignKey("self", models.CASCADE, null=True)


class User(AbstractUser):
    id = IdAutoField(StaffId, primary_key=True)


class Manager(User):
    pass


class Note(models.Model):
    text = models.CharField(max_length=20)
    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = ObjectIdField()
    target = GenericForeignKey()


class Book(models.Model):
    id = IdAutoField(BookId, primary_key=True)
    title = models.CharField(max_length=20)
    author = models.ForeignKey(User, models.CASCADE, null=True)
    readers = models.ManyToManyField(User, related_name="reads")
    notes = GenericRelation(Note, related_query_name="book")


class Shelf(models.Model):
    """It has a plain key."""

    notes = GenericRelation(Note)


class Scan(models.Model):
    content_type = models.ForeignKey(ContentType, models.CASCADE)
    object_id = ObjectIdField(UuidId)
    target = GenericForeignKey()


keys = count(0x192C1F07B1E7A358F00000000000001)


def new_part():
    return PartId(UUID(int=next(keys)))


class Part(models.Model):
    id = IdField(PartId, primary_key=True, default=new_part)
    uses = models.ManyToManyField("self", symmetrical=False, related_name="users")
    scans = GenericRelation(Scan)
