"""FastAPI on uvicorn with httptools and uvloop, one process."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Floats(BaseModel):
    x: list[float]


@app.post("/echo")
async def echo(floats: Floats) -> list[float]:
    return floats.x
