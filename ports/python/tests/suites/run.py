"""Runs Django's own tests with ids of ours as automatic keys, in the folder of these tests.

It fails for each test that fails and is not in differences.txt, and for each test there that passes.
"""

import atexit
import multiprocessing
import os
import shutil
import sys
import tempfile
from pathlib import Path

from django.conf import settings
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.auth.apps import AuthConfig
from django.test.runner import DiscoverRunner

from opaque_id import Keyring

SUITES = """
    admin_changelist admin_filters admin_ordering admin_utils basic contenttypes_tests custom_pk delete generic_inline_admin
    generic_relations generic_relations_regress get_object_or_404 get_or_create lookup m2m_recursive m2m_regress m2m_through
    many_to_many many_to_one many_to_one_null model_forms model_inheritance one_to_one prefetch_related select_related
    admin_views.test_actions admin_views.test_autocomplete_view admin_views.test_history_view admin_views.tests.AdminViewBasicTest
    admin_views.tests.AdminViewPermissionsTest
    auth_tests.test_auth_backends auth_tests.test_forms auth_tests.test_login auth_tests.test_tokens auth_tests.test_views
    serializers.test_data serializers.test_json serializers.test_jsonl serializers.test_natural serializers.test_xml
""".split()

settings.configure(
    DATABASES={name: {"ENGINE": "django.db.backends.sqlite3"} for name in ("default", "other")},
    DEFAULT_AUTO_FIELD="suite_fields.SuiteAutoField",
    OPAQUE_ID_KEYRING=Keyring.from_entries("0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23"),
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    SECRET_KEY="django_tests_secret_key",
    USE_TZ=False,
)
for config in [AuthConfig, SimpleAdminConfig]:
    config.default_auto_field = settings.DEFAULT_AUTO_FIELD
temporary = tempfile.mkdtemp(prefix="django_")
tempfile.tempdir = os.environ["TMPDIR"] = temporary
sys.path.insert(0, os.getcwd())

import runtests  # noqa: E402

runtests.ALWAYS_INSTALLED_APPS.append("opaque_id.django")


class Runner(DiscoverRunner):
    def suite_result(self, suite, result, **options):
        failed = {getattr(test, "test_case", test).id() for test, _ in [*result.failures, *result.errors]}
        lines = Path(__file__).with_name("differences.txt").read_text().splitlines()
        expected = {line for line in lines if line and not line.startswith("#")}
        for what, names in [("unexpected failure", failed - expected), ("passes, but is in differences.txt", expected - failed)]:
            for name in sorted(names):
                print(f"{name}: {what}")
        return len(failed ^ expected)


if __name__ == "__main__":
    atexit.register(shutil.rmtree, temporary)
    multiprocessing.set_start_method("fork")
    runtests.get_runner = lambda settings: Runner
    options = dict.fromkeys(["failfast", "interactive", "keepdb", "reverse", "debug_sql", "pdb", "buffer", "timing", "shuffle"], False)
    options |= {"verbosity": 1, "parallel": 2, "tags": [], "exclude_tags": [], "test_name_patterns": None, "start_at": None, "start_after": None}
    sys.exit(bool(runtests.django_tests(test_labels=sys.argv[1:] or SUITES, **options)))
