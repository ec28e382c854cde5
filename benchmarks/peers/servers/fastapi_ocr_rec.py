"""FastAPI on uvicorn, one process; the model runs in the thread pool, as its documentation says of blocking work."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from recognizer import Recognizer

app = FastAPI()
recognizer = Recognizer()


@app.post("/recognize")
async def recognize(request: Request) -> list[int]:
    return await run_in_threadpool(recognizer.recognize, await request.body())
