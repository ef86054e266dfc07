"""A project of Django, on the database that `DATABASE_URL` names, or on SQLite."""

import os
from urllib.parse import urlsplit

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
    AUTH_USER_MODEL="shop.User",
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.messages", "django.contrib.sessions", "django_filters", "rest_framework", "opaque_id.django", "shop"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    # Tables are those of the models at once.
    MIGRATION_MODULES=dict.fromkeys(["admin", "auth", "contenttypes", "sessions"]),
    OPAQUE_ID_KEYRING=Keyring.from_entries("0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23"),
    ROOT_URLCONF="shop.urls",
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_PERMISSION_CLASSES": []},
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

from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

setup_test_environment()


@pytest.fixture(scope="session")
def database():
    call_command("migrate", run_syncdb=True, verbosity=0)


@pytest.fixture(autouse=True)
def rolled_back(database):
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
