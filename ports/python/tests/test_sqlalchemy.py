"""Columns of SQLAlchemy, and Alembic's autogenerate, on the database that `DATABASE_URL` names, or on SQLite."""

import os
from io import StringIO
from uuid import UUID

import pytest
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import ForeignKey, create_engine, exc, func, literal, make_url, select, text
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateTable

import opaque_id.sqlalchemy
from opaque_id import IntId, Keyring, UuidId
from opaque_id.sqlalchemy import IdType, render_item


class UserId(IntId, prefix="user"):
    pass


class OldId(IntId, prefix="old", key="u32"):
    pass


class OrderId(UuidId, prefix="order"):
    pass


class Base(DeclarativeBase):
    type_annotation_map = {UserId: IdType(UserId), OrderId: IdType(OrderId), OldId: IdType(OldId)}


class User(Base):
    __tablename__ = "users"
    id: Mapped[UserId] = mapped_column(primary_key=True)
    old: Mapped[OldId | None]


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[OrderId] = mapped_column(primary_key=True)
    user: Mapped[UserId] = mapped_column(ForeignKey("users.id"))
    replaces: Mapped[OrderId | None] = mapped_column(ForeignKey("orders.id"))
    state: Mapped[int] = mapped_column(server_default=text("1"))


KEYS = [UUID("0192c1f0-7b1e-7a35-8f00-000000000001"), UUID("0192c1f0-7b1e-7a35-8f00-000000000002")]
DRIVERS = {"postgres": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}


@pytest.fixture
def engine():
    url = make_url(os.environ.get("DATABASE_URL", "sqlite://"))
    engine = create_engine(url.set(drivername=DRIVERS.get(url.drivername, url.drivername)))
    yield engine
    Base.metadata.drop_all(engine)
    engine.dispose()


def test_rows(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        user = User(old=OldId(2**32 - 1))
        session.add(user)
        session.flush()
        assert user.id == UserId(1)
        orders = [Order(id=OrderId(key), user=user.id) for key in KEYS]
        session.add_all(orders)
        session.flush()
        # The rows that the database returns are matched with the orders by their ids.
        assert [order.state for order in orders] == [1, 1]
        orders[0].state, orders[1].state, orders[1].replaces = 2, 3, orders[0].id
        session.commit()
        session.expire_all()
        assert [(order.state, order.replaces) for order in orders] == [(2, None), (3, orders[0].id)]
        found = session.scalars(select(Order).where(Order.user == user.id).order_by(Order.id.desc())).all()
        assert [order.id for order in found] == [OrderId(key) for key in reversed(KEYS)]
        assert session.scalars(select(User).where(User.id.in_([UserId(1), UserId(2)]))).one().old == user.old == OldId(2**32 - 1)
        # On MariaDB this is a decimal.
        assert session.scalar(select(func.coalesce(User.old, literal(OldId(1), IdType(OldId))))) == user.old
        # As Rust's adapters store it.
        stored = KEYS if engine.dialect.name == "postgresql" else [key.bytes for key in KEYS]
        assert session.execute(text("SELECT id FROM orders ORDER BY id")).scalars().all() == stored
        external = Keyring.generate().seal(user.id)
        for leaked in [external, str(external), 1, OldId(1)]:
            with pytest.raises(exc.StatementError, match="expected a UserId"):
                session.scalars(select(User).where(User.id == leaked)).all()


def test_columns_are_those_of_rust():
    def ddl(table, dialect):
        return " ".join(str(CreateTable(table.__table__).compile(dialect=dialect)).split())

    assert "id BIGSERIAL" in ddl(User, postgresql.dialect()) and '"old" BIGINT' in ddl(User, postgresql.dialect())
    assert "id UUID" in ddl(Order, postgresql.dialect())
    assert "INTEGER UNSIGNED" in ddl(User, mysql.dialect()) and "id BINARY(16)" in ddl(Order, mysql.dialect())
    assert "id BLOB" in ddl(Order, sqlite.dialect()) and "id INTEGER" in ddl(User, sqlite.dialect())


def test_autogenerate(engine):
    with engine.connect() as connection:
        options = {"render_item": render_item, "compare_type": True, "target_metadata": Base.metadata}
        context = MigrationContext.configure(connection, opts=options)
        script = produce_migrations(context, Base.metadata)
        imports: set[str] = set()
        code = render_python_code(script.upgrade_ops, render_item=render_item, migration_context=context, imports=imports)
        assert "opaque_id.sqlalchemy.IdType('i64')" in code and "UserId" not in code
        # What it wrote runs, and then nothing is left to change.
        source = StringIO()
        source.write("import sqlalchemy as sa\nimport opaque_id.sqlalchemy\nif True:\n" + code)
        exec(source.getvalue(), {"op": Operations(context), "opaque_id": opaque_id})
        assert compare_metadata(context, Base.metadata) == []
