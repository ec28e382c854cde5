"""Mounted applications in tests without a server."""

import warnings
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI

import trilith
from trilith.errors import ServiceError
from trilith.testing.mounts import answering


def sold(shop: Annotated[Any, Depends(trilith.current_service)]) -> int:
    return shop.sold


def test_the_clients_of_frameworks_see_the_instance():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Starlette's, about the library that its client is made of
        from starlette.testclient import TestClient
    app = FastAPI()
    app.get("/sold")(sold)

    class Shop:
        sold = 3

    with answering(Shop()) as shop:
        shop.sold += 1
        assert trilith.current_service() is shop
        assert TestClient(app).get("/sold").json() == 4
    with pytest.raises(ServiceError, match="answering"):
        trilith.current_service()
