"""Opened ids as parameters, and one answer to each refused id, for FastAPI.

```python
app = FastAPI()
refuse_ids(app)

@app.get("/users/{id}")
def show(id: Annotated[UserId, Opened(keyring)]) -> User: ...
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.encoders import encoders_by_class_tuples
from fastapi.exception_handlers import request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from ._format import InvalidId
from .ids import Id, _Text, external_of, pydantic_schema
from .keyring import Keyring

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


class Opened:
    """`Annotated[UserId, Opened(keyring)]` is an internal id in the program. Clients send and read it as an external id."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        if not isinstance(source, type) or not issubclass(source, Id) or source.form.startswith("mapped"):
            raise TypeError(f"expected a class of sealed ids, found {source}: write Optional[Annotated[UserId, Opened(keyring)]] for other types")
        external = external_of(source)

        def read(value: Any) -> Any:
            return value if isinstance(value, source) else self.keyring.open(value if isinstance(value, external) else external(value))

        return pydantic_schema(external, read, lambda id: str(self.keyring.seal(id)))


def _refuse(id: Id[Any]) -> Any:
    raise TypeError(f"expected the external id of a {type(id).__name__}, found the internal one: seal it")


def refuse_ids(app: FastAPI) -> None:
    """Answers 404 to each refused id in a URL, and 422 to one in a body. The answer is the same for malformed and made-up ids."""
    encoders_by_class_tuples[str] = (*encoders_by_class_tuples.get(str, ()), _Text)
    encoders_by_class_tuples[_refuse] = (Id,)

    @app.exception_handler(InvalidId)
    async def refused(request: Request, error: InvalidId) -> Response:
        return JSONResponse({"detail": "Not Found"}, 404)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = [
            {key: part for key, part in found.items() if found["type"] != "opaque_id" or key not in ("input", "ctx")} for found in error.errors()
        ]
        if any(found["type"] == "opaque_id" and found["loc"][0] != "body" for found in errors):
            return JSONResponse({"detail": "Not Found"}, 404)
        return await request_validation_exception_handler(request, RequestValidationError(errors))
